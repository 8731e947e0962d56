import { now } from "../gateway/GatewayClock.ts"
import { Sign } from "../shell/Sign.tsx"
import { duration } from "../text/Format.ts"

/** How long something waits yet. */
export const TimeLeft = ({ until }: { readonly until: number }) => {
  const left = until - now()
  return (
    <span class="state tone-waiting">
      <Sign of="waiting" />
      {left > 0 ? `${duration(left).replace(/\.\d s/, " s")} left` : "its time is over"}
    </span>
  )
}
