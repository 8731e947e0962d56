import changelog from "@changesets/cli/changelog"

/** As of Changesets, without the packages of this repository: they have one version anyway. */
export default { ...changelog, getDependencyReleaseLine: async () => "" }
