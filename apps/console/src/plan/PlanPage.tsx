import { useEffect, useMemo } from "preact/hooks"
import { followPlan, type FollowedPlan } from "../live/FollowedPlan.ts"
import { PlanFiles } from "../file/StoredFiles.tsx"
import { isProblem } from "../gateway/Resource.ts"
import { here } from "../route/Location.ts"
import { Loading, Problem } from "../shell/Notice.tsx"
import { Answer, Speech } from "./Answer.tsx"
import { AskOn, Said } from "./AskOn.tsx"
import { Banner } from "./Banner.tsx"
import { ComparedPlans } from "./ComparedPlans.tsx"
import { Deliveries } from "./Deliveries.tsx"
import { Feedback } from "./Feedback.tsx"
import { Header } from "./Header.tsx"
import { PlanApprovals } from "./PlanApprovals.tsx"
import { PlanWaits } from "./PlanWaits.tsx"
import { Timeline } from "./Timeline.tsx"

const Missing = ({ live }: { readonly live: FollowedPlan }) =>
  isProblem(live.problem.value, "not_found") ? (
    <>
      <h1>There is no such plan</h1>
      <p>
        Its session was deleted or has expired, or it is somebody else's. <a href="/plans">All plans</a>
      </p>
    </>
  ) : (
    <>
      <h1>Plan</h1>
      <Problem error={live.problem.value} />
    </>
  )

/** One plan, or another one beside it. */
export const PlanPage = ({ id }: { readonly id: string }) => {
  const other = here.value.query.get("with")
  return other === null ? <OnePlan id={id} /> : <ComparedPlans key={other} id={id} other={other} />
}

/** What was asked, how it goes, where its time went, and the answer. Live and replayed it is the same. */
const OnePlan = ({ id }: { readonly id: string }) => {
  const live = useMemo(() => followPlan(id), [id])
  useEffect(() => live.stop, [live])
  // A plan that is gone is not shown any more: nobody can say how it went.
  if (live.problem.value !== undefined) return <Missing live={live} />
  if (live.plan.value === undefined) {
    return (
      <>
        <Banner live={live} />
        <Loading />
      </>
    )
  }
  const isOver = live.view.value.outcome !== null
  const plan = live.plan.value
  // They keep what is open and typed in them when the answer moves to the top.
  const answer = <Answer key="answer" live={live} />
  const said = <Said key="said" entries={live.view.value.entries} isOver={isOver} planId={id} />
  const askOn = <AskOn key="ask on" isOver={isOver} planOf={() => Promise.resolve(plan)} />
  const feedback = <Feedback key="feedback" planId={id} />
  const timeline = <Timeline key="timeline" live={live} />
  return (
    <>
      <Banner live={live} />
      <Header live={live} />
      <PlanFiles plan={plan} view={live.view.value} />
      <PlanApprovals live={live} />
      <PlanWaits live={live} />
      <Speech live={live} />
      {isOver ? [answer, feedback, said, askOn, timeline] : [timeline, answer, said, askOn]}
      <Deliveries planId={id} state={plan.state} />
    </>
  )
}
