import { now } from "../gateway/GatewayClock.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { Sign } from "../shell/Sign.tsx"
import { elapsed } from "../text/Format.ts"

/** How long a plan may be unheard before the page says so, in milliseconds. */
const patience = 3_000

/** Says when the page does not hear of the plan as it happens. */
export const Banner = ({ live }: { readonly live: FollowedPlan }) => {
  const lost = live.lostAt.value
  if (live.hearing.value === "polling" && lost === undefined) {
    return (
      <p class="banner" role="status">
        {"locks" in navigator ? "Other tabs use all live streams of this browser." : "Only https has live streams."}{" "}
        This tab shows every 2 s how far the plan is, and the rest when it is over.
      </p>
    )
  }
  // The clock makes it appear in time.
  if (lost === undefined || now() < 0 || Date.now() - lost < patience) return null
  const heard = live.heardAt.value
  return (
    <p class="banner tone-warn" role="status">
      <Sign of="warn" />
      Reconnecting,{" "}
      <span aria-live="off">
        {heard === undefined ? "no event yet" : `last event ${elapsed(Date.now() - heard)} ago`}
      </span>
    </p>
  )
}
