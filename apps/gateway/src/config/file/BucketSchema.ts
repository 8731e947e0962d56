import { Option, Schema } from "effect"
import { createRequire } from "node:module"
import type { Issue } from "../setting/ConfigProblem.ts"
import { httpUrl, matching } from "../setting/SettingText.ts"

/** Where the bytes of files are, in place of the database. */
export const FileS3 = Schema.Struct({
  bucket: matching(/^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/, "Expected the name of a bucket"),
  region: Schema.optionalKey(matching(/^[A-Za-z0-9-]{1,64}$/, "Expected a region such as eu-central-1")),
  endpoint: Schema.optionalKey(httpUrl),
  prefix: Schema.optionalKey(matching(/^[\w!.*'()/-]{0,512}$/, "Expected letters, digits and any of _ ! . * ' ( ) / -"))
})
export type FileS3 = typeof FileS3.Type

/** The client of S3: the operator installs it, since most gateways need none. */
const client = "@aws-sdk/client-s3"

const find = Option.liftThrowable(createRequire(import.meta.url).resolve)

/** What keeps the bucket from being used. */
export const bucketIssues = (s3: FileS3 | undefined): ReadonlyArray<Issue> =>
  s3 === undefined || Option.isSome(find(client))
    ? []
    : [{ path: ["files", "s3"], expected: `Expected ${client} beside the gateway: npm install ${client}` }]
