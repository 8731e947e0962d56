/** The state of the effect `e`, whose call is `t` and whose plan is `p`. One of a call that has ended, and has not said what it has done, is `unknown`. */
export const effectState = `case
    when e.state = 'running' and not coalesce(t.state = 'running' and p.state in ('queued', 'running', 'waiting'), false)
    then 'unknown' else e.state end`
