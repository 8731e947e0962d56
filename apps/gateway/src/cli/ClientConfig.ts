import { Config, Redacted, Result } from "effect"
import { matching, setting, url } from "../setting/Setting.ts"

/** The gateway that the command line speaks to. */
export const ClientConfig = Config.all({
  url: setting("BOWLINE_URL", url(["http:", "https:"], "Expected an http or https URL"), "http://127.0.0.1:3774"),
  apiKey: setting(
    "BOWLINE_API_KEY",
    (text) => Result.map(matching(/^[\x21-\x7e]+$/, "Expected a key of printable ASCII")(text), Redacted.make),
    undefined
  )
})
