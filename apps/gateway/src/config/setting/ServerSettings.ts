import { Schema } from "effect"
import { callerKeys, callerNames } from "./CallerKeys.ts"
import { listSetting, optional, setting } from "./Setting.ts"
import {
  duration,
  egressRules,
  globs,
  integer,
  matching,
  oneOf,
  processes,
  seed,
  size,
  sizeUpTo,
  url
} from "./SettingText.ts"

/** Where the gateway listens, and who may call it. */
export const serverSettings = {
  host: setting(matching(/^[A-Za-z0-9.:-]+$/, "Expected a name or an address of this machine to listen on"), {
    variable: "BOWLINE_HOST",
    flag: "host",
    path: ["server", "host"],
    default: "127.0.0.1",
    doc: "the address to listen on"
  }),
  port: setting(integer(0, 65_535), {
    variable: "BOWLINE_PORT",
    flag: "port",
    path: ["server", "port"],
    default: "3774",
    doc: "the port to listen on; 0 is any that is free"
  }),
  workers: setting(processes, {
    variable: "BOWLINE_WORKERS",
    flag: "workers",
    path: ["server", "workers"],
    default: "1",
    doc: "how many processes serve the port, at most 256, or `auto`: one for each processor. More than 1 need a Postgres server, see [workers](../operations/workers.md)"
  }),
  apiKeys: listSetting(callerKeys, {
    variable: "BOWLINE_API_KEYS",
    path: ["server", "api_keys"],
    secret: true,
    unset: "none: everybody may call, and the gateway listens on a loopback address only",
    doc: "`name=key,name2=key2`: the callers and their keys, of at least 3 characters; make one with `openssl rand -hex 32`. A caller may have several keys"
  }),
  adminCallers: optional(callerNames, {
    variable: "BOWLINE_ADMIN_CALLERS",
    path: ["server", "admin_callers"],
    list: true,
    unset: "none; without keys, everybody",
    doc: "names of the callers that may see and reset credentials, and see peers"
  }),
  maxBody: setting(size, {
    variable: "BOWLINE_MAX_BODY",
    path: ["server", "max_body"],
    default: "8MiB",
    doc: "the largest body of a request, at most `256MiB`"
  }),
  envAllow: listSetting(globs, {
    variable: "BOWLINE_ENV_ALLOW",
    path: ["server", "env_allow"],
    doc: "globs of the variables that an agent's `auth` may name"
  }),
  shutdownGrace: setting(duration("0s"), {
    variable: "BOWLINE_SHUTDOWN_GRACE",
    path: ["server", "shutdown_grace"],
    default: "30s",
    doc: "how long running plans may continue during a [shutdown](../operations/shutdown.md)"
  })
}

/** Where plans and sessions are stored, and for how long. */
export const storeSettings = {
  databaseUrl: optional(Schema.RedactedFromValue(url(["postgres:", "postgresql:"], "Expected a postgres:// URL")), {
    variable: "DATABASE_URL",
    path: ["database", "url"],
    secret: true,
    unset: "none: the embedded database",
    doc: "the URL of a Postgres server, `postgres://…`"
  }),
  dataDir: setting(Schema.String, {
    variable: "BOWLINE_DATA_DIR",
    path: ["database", "data_dir"],
    default: ".bowline/data",
    doc: "the folder of the embedded database; `memory:` keeps nothing"
  }),
  sessionTtl: setting(duration("1m"), {
    variable: "BOWLINE_SESSION_TTL",
    path: ["sessions", "ttl"],
    default: "30d",
    doc: "how long a session is kept after its last plan, at least `1m`"
  }),
  eventsTtl: optional(duration("1s"), {
    variable: "BOWLINE_EVENTS_TTL",
    path: ["sessions", "events_ttl"],
    unset: "`30d`, or `BOWLINE_SESSION_TTL` if that is shorter",
    doc: "how long the events of a plan can be streamed after its end, from `1s` to `BOWLINE_SESSION_TTL`; the plan and its results stay as long as the session"
  }),
  maxFile: setting(size, {
    variable: "BOWLINE_MAX_FILE",
    path: ["files", "max_file"],
    default: "32MiB",
    doc: "the largest [file](files.md), at most `256MiB`; `BOWLINE_MAX_BODY` does not bound it"
  }),
  sessionQuota: setting(sizeUpTo("1024GiB", 2 ** 40), {
    variable: "BOWLINE_FILES_SESSION_QUOTA",
    path: ["files", "session_quota"],
    default: "256MiB",
    doc: "how much the files of a session may have together, at most `1024GiB`"
  }),
  callerQuota: setting(sizeUpTo("1024GiB", 2 ** 40), {
    variable: "BOWLINE_FILES_CALLER_QUOTA",
    path: ["files", "caller_quota"],
    default: "1GiB",
    doc: "how much the files of a caller may have together, at most `1024GiB`"
  }),
  filesTtl: setting(duration("1s"), {
    variable: "BOWLINE_FILES_TTL",
    path: ["files", "ttl"],
    default: "7d",
    doc: "how long a file is kept that no session has, at least `1s`"
  }),
  leaseTtl: setting(duration("1s"), {
    variable: "BOWLINE_LEASE_TTL",
    path: ["sessions", "lease_ttl"],
    default: "15s",
    doc: "how long a lease lasts without a renewal, at least `1s`"
  }),
  maxQueue: setting(integer(0, 1_000_000), {
    path: ["sessions", "max_queue"],
    default: "32",
    doc: "how many plans may wait for one session; one more is refused with `session_busy`"
  })
}

/** Egress, the gateway's identity, and its log. */
export const edgeSettings = {
  egressAllow: listSetting(egressRules, {
    variable: "BOWLINE_EGRESS_ALLOW",
    path: ["egress", "allow"],
    doc: "hosts, `*.suffixes`, addresses and networks that callers may make the gateway connect to, see [egress](#egress)"
  }),
  egressDeny: listSetting(egressRules, {
    variable: "BOWLINE_EGRESS_DENY",
    path: ["egress", "deny"],
    doc: "the same, but which they may not make it connect to"
  }),
  didSeed: optional(seed, {
    variable: "BOWLINE_DID_SEED",
    path: ["identity", "seed"],
    secret: true,
    unset: "none",
    doc: "the secret of the gateway's [identity](#identity): 32 bytes, in base64 or as 64 digits in hex"
  }),
  didAuthor: optional(matching(/^[\w.@-]{1,128}$/, "Expected 1..128 characters of A-Z a-z 0-9 . _ - @"), {
    variable: "BOWLINE_DID_AUTHOR",
    path: ["identity", "author"],
    unset: "none",
    doc: "who runs the gateway, such as an e-mail address: `A-Z a-z 0-9 . _ - @`"
  }),
  didName: optional(matching(/^[\w.-]{1,64}$/, "Expected 1..64 characters of A-Z a-z 0-9 . _ -"), {
    variable: "BOWLINE_DID_NAME",
    path: ["identity", "name"],
    unset: "none",
    doc: "what the gateway is called: `A-Z a-z 0-9 . _ -`"
  }),
  logLevel: setting(oneOf(["trace", "debug", "info", "warn", "error", "fatal", "none"]), {
    variable: "LOG_LEVEL",
    path: ["log", "level"],
    default: "info",
    doc: "`trace`, `debug`, `info`, `warn`, `error`, `fatal`, `none`"
  }),
  logFormat: optional(oneOf(["pretty", "json"]), {
    variable: "LOG_FORMAT",
    path: ["log", "format"],
    unset: "`pretty` on a terminal, else `json`",
    doc: "`pretty`, `json`"
  })
}
