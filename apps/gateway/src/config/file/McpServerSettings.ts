import type { ConfiguredMcpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { variablesOf, type AgentAuth } from "@bowline/domain/peer/Agent"
import type { Issue } from "../setting/ConfigProblem.ts"
import { isSet, type Texts } from "../setting/ReadSettings.ts"
import type { FileMcpServer } from "./PresetSchema.ts"

/** The fields that only servers with a URL have, and those that only commands have. */
const ofUrls = ["headers"] as const
const ofCommands = ["args", "env"] as const

/** The variables of an `auth` that are not set. `path` is where the `auth` stands. */
export const unsetVariables = (path: Issue["path"], auth: AgentAuth, environment: Texts): ReadonlyArray<Issue> =>
  variablesOf(auth)
    .filter(([, variable]) => !isSet(environment[variable]))
    .map(([field, variable]) => ({ path: [...path, field], expected: `The variable ${variable} is not set` }))

/** Reports what the schema of one server cannot say: fields that do not go together, names that stand there twice, variables that are not set. */
export const mcpServerIssues = (
  path: Issue["path"],
  servers: ReadonlyArray<FileMcpServer>,
  environment: Texts
): ReadonlyArray<Issue> =>
  servers.flatMap((server, index) => {
    const { auth, command, name, url } = server
    const issue = (keys: ReadonlyArray<string>, expected: string): Issue => ({
      path: [...path, index, ...keys],
      expected
    })
    const isRepeated = servers.findIndex((other) => other.name === name) < index
    const repeated = isRepeated ? [issue(["name"], "Expected each name once")] : []
    if ((command === undefined) === (url === undefined)) {
      return [...repeated, issue([], "Expected either a url or a command")]
    }
    const strays = url === undefined ? ofUrls : ofCommands
    const other = url === undefined ? "command" : "url"
    return [
      ...repeated,
      ...strays.filter((key) => server[key] !== undefined).map((key) => issue([key], `Expected none with a ${other}`)),
      ...(url === undefined && auth.type !== "none" ? [issue(["auth"], "Expected none with a command")] : []),
      ...unsetVariables([...path, index, "auth"], auth, environment)
    ]
  })

/** The servers without those that have issues. */
export const toMcpServers = (servers: ReadonlyArray<FileMcpServer>): ReadonlyArray<ConfiguredMcpServer> =>
  servers.flatMap(({ args, auth, command, env, headers, url, ...terms }): ReadonlyArray<ConfiguredMcpServer> => {
    if (url !== undefined) return [{ ...terms, url, auth, ...(headers !== undefined && { headers }) }]
    if (command === undefined) return []
    return [{ ...terms, command, ...(args !== undefined && { args }), ...(env !== undefined && { env }) }]
  })
