import { Data } from "effect"

/** The guard of a write does not hold any more: another replica has the session, or the plan, or it is gone. */
export class LeaseLost extends Data.TaggedError("LeaseLost") {}
