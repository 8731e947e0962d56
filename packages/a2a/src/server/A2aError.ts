import { Data } from "effect"
import type { Metadata } from "./ServedTask.ts"

/** The errors of A2A: the code of JSON-RPC, the status of HTTP+JSON with its name, and the reason in `ErrorInfo`. */
const errors = {
  ParseError: { code: -32700, status: 400, name: "INVALID_ARGUMENT" },
  InvalidRequest: { code: -32600, status: 400, name: "INVALID_ARGUMENT" },
  MethodNotFound: { code: -32601, status: 404, name: "NOT_FOUND" },
  InvalidParams: { code: -32602, status: 400, name: "INVALID_ARGUMENT" },
  Internal: { code: -32603, status: 500, name: "INTERNAL" },
  TaskNotFound: { code: -32001, status: 404, name: "NOT_FOUND" },
  TaskNotCancelable: { code: -32002, status: 400, name: "FAILED_PRECONDITION" },
  PushNotificationNotSupported: { code: -32003, status: 400, name: "FAILED_PRECONDITION" },
  UnsupportedOperation: { code: -32004, status: 400, name: "FAILED_PRECONDITION" },
  ContentTypeNotSupported: { code: -32005, status: 400, name: "INVALID_ARGUMENT" },
  ExtendedAgentCardNotConfigured: { code: -32007, status: 400, name: "FAILED_PRECONDITION" },
  ExtensionSupportRequired: { code: -32008, status: 400, name: "FAILED_PRECONDITION" },
  VersionNotSupported: { code: -32009, status: 400, name: "FAILED_PRECONDITION" }
} as const
export type ErrorName = keyof typeof errors

/** A field of the parameters that is wrong. */
export interface Violation {
  readonly path: string
  readonly message: string
}

/** What a client is told of a call that fails. `metadata` goes into `ErrorInfo`; `status` takes the place of the error's own. */
export class A2aError extends Data.TaggedError("A2aError")<{
  readonly error: ErrorName
  readonly message: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly violations?: ReadonlyArray<Violation>
  readonly status?: number
}> {}

/** Parameters that are wrong, each named. */
export const invalidParams = (violations: ReadonlyArray<Violation>): A2aError =>
  new A2aError({
    error: "InvalidParams",
    message: violations.map(({ message, path }) => (path === "" ? message : `${path}: ${message}`)).join("; "),
    violations
  })

const reasonOf = (error: ErrorName): string => error.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase()

/** The messages of `google.rpc` that say more. */
const detailsOf = ({ error, metadata = {}, violations = [] }: A2aError): ReadonlyArray<Metadata> => [
  {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    reason: reasonOf(error),
    domain: "a2a-protocol.org",
    metadata
  },
  ...(violations.length === 0
    ? []
    : [
        {
          "@type": "type.googleapis.com/google.rpc.BadRequest",
          fieldViolations: violations.map(({ message, path }) => ({ field: path, description: message }))
        }
      ])
]

/** The status of its answer over HTTP+JSON. */
export const statusOf = ({ error, status = errors[error].status }: A2aError): number => status

/** The `error` of a JSON-RPC answer. HTTP+JSON of 0.3 has the same as its whole body. */
export const toRpc = (failed: A2aError): Metadata => ({
  code: errors[failed.error].code,
  message: failed.message,
  data: detailsOf(failed)
})

const statusNames: Readonly<Record<number, string>> = {
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE"
}

/** The body of an error over HTTP+JSON (AIP-193). */
export const toRest = (failed: A2aError): Metadata => ({
  error: {
    code: statusOf(failed),
    status:
      failed.status === undefined ? errors[failed.error].name : (statusNames[failed.status] ?? "INVALID_ARGUMENT"),
    message: failed.message,
    details: detailsOf(failed)
  }
})
