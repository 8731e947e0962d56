import { EffectState } from "@bowline/domain/unstable/tool/EffectState"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Instant, pageEnd, pageQuery, Parameter } from "../api/PageQuery.ts"
import { Forbidden, Internal, InvalidRequest, NotFound, Unavailable } from "../api/Problem.ts"

const effect = EffectState.annotate({ identifier: "Effect" })
const failures = [Unavailable, Internal] as const

export class EffectsApi extends HttpApiGroup.make("effects")
  .add(
    HttpApiEndpoint.get("list", "/effects", {
      query: {
        tool: Schema.optionalKey(
          Parameter.check(Schema.isBetweenLength(1, 256)).annotate({
            description: "Of this tool, by its name in plans"
          })
        ),
        since: Schema.optionalKey(Instant.annotate({ description: "Claimed then or later" })),
        ...pageQuery
      },
      success: Schema.Struct({ effects: Schema.Array(effect), ...pageEnd }),
      error: [InvalidRequest, ...failures]
    }).annotate(OpenApi.Summary, "What calls of tools have done that is not done twice, newest first"),
    HttpApiEndpoint.delete("forget", "/effects/:id", {
      params: { id: Schema.String.annotate({ description: "`effect_id` of the effect" }) },
      success: HttpApiSchema.NoContent,
      error: [NotFound, Forbidden, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Forget an effect: the next call of its key is made",
        description: "For callers marked `admin`."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Effects") {}
