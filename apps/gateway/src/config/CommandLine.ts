import { Option } from "effect"
import { basename, extname } from "node:path"
import type { ConfigFile } from "./file/ConfigFile.ts"
import * as FileSchema from "./file/FileSchema.ts"
import * as PresetSettings from "./file/PresetSettings.ts"
import type { Problem } from "./setting/ConfigProblem.ts"
import type { Texts } from "./setting/ReadSettings.ts"

/** What the command line of `bowline serve` says. */
export interface CommandLine {
  /** Settings, by their flags. */
  readonly flags: Texts
  /** Whether the gateway runs its demo, whatever else is set. */
  readonly isDemo: boolean
  /** Agents of the preset `default`, as `url` or `name=url`. */
  readonly agents: ReadonlyArray<string>
  /** MCP servers of it, as `url`, `command with arguments`, or with `name=` in front. */
  readonly mcp: ReadonlyArray<string>
}

export const noCommandLine: CommandLine = { flags: {}, isDemo: false, agents: [], mcp: [] }

const isUrl = (text: string): boolean => /^https?:\/\//i.test(text)

/** The words of a command, in quotes or not. There is no shell. */
const wordsOf = (command: string): ReadonlyArray<string> =>
  Array.from(
    command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g),
    ([, double, single, plain]) => double ?? single ?? plain ?? ""
  )

/** A host without a name of its own says nothing. */
const ofHost = (url: string, kind: string): string => {
  const { hostname = "" } = URL.parse(url) ?? {}
  return hostname === "localhost" || /^[\d.]+$|^\[/.test(hostname)
    ? kind
    : hostname.replace(/^www\./, "").replace(/\..*$/, "")
}

/** Names of files and folders that every program has. */
const everywhere = new Set(["", ".", "..", "bin", "build", "cli", "dist", "index", "main", "server", "src", "start"])

/** The last word that is no option is the program, or what an interpreter runs: the last part of its path that says something. */
const ofCommand = (words: ReadonlyArray<string>): string => {
  const parts = (words.findLast((word) => !word.startsWith("-")) ?? "").split(/[\\/]/)
  return parts.map((part) => basename(part, extname(part))).findLast((part) => !everywhere.has(part)) ?? ""
}

/** The names that are free: what has none of its own gets one, with a number behind it if another has that one. */
const makeNames = (taken: ReadonlyArray<string>) => {
  const names = new Set(taken)
  return (wanted: string, kind: string): string => {
    const base = wanted.replaceAll(/[^A-Za-z0-9_-]+/g, "-").replaceAll(/^[^A-Za-z0-9]+|-+$/g, "") || kind
    let name = base
    for (let number = 2; names.has(name); number++) name = `${base}-${number}`
    names.add(name)
    return name
  }
}

/** Takes `name=` off a text, if it begins so. */
const named = (text: string): readonly [name: string | undefined, rest: string] => {
  const [, name, rest] = /^([A-Za-z0-9][\w.-]{0,63})=(?!=)(.+)$/s.exec(text) ?? []
  return rest === undefined ? [undefined, text.trim()] : [name, rest.trim()]
}

/** Adds the agents and servers of the command line to the preset `default`, as if the file had them. */
export const withOwn = (
  file: ConfigFile,
  { agents, mcp }: Pick<CommandLine, "agents" | "mcp">,
  environment: Texts
): ConfigFile => {
  const [preset, ...others] = file.presets
  if (preset === undefined || agents.length + mcp.length === 0) return file
  const nameFor = makeNames([...preset.agents, ...preset.servers].map(({ name }) => name))
  const own = {
    agents: agents.map((text) => {
      const [name, endpoint] = named(text)
      return { name: nameFor(name ?? ofHost(endpoint, "agent"), "agent"), endpoint }
    }),
    mcp_servers: mcp.map((text) => {
      const [name, rest] = named(text)
      if (isUrl(rest)) return { name: nameFor(name ?? ofHost(rest, "mcp"), "mcp"), url: rest }
      const [command = "", ...args] = wordsOf(rest)
      return { name: nameFor(name ?? ofCommand([command, ...args]), "mcp"), command, args }
    })
  }
  const { issues, lists } = FileSchema.decode(own)
  const read = PresetSettings.read(
    Option.getOrElse(lists, (): FileSchema.Lists => ({})),
    environment
  )
  const problems = [...issues, ...read.issues].map(({ expected, path }): Problem => ({
    place: { _tag: "Flag", name: path[0] === "agents" ? "agent" : "mcp" },
    expected
  }))
  const [added] = read.presets
  const whole = {
    ...preset,
    agents: [...preset.agents, ...(added?.agents ?? [])],
    servers: [...preset.servers, ...(added?.servers ?? [])]
  }
  return { ...file, presets: [whole, ...others], problems: [...file.problems, ...problems] }
}
