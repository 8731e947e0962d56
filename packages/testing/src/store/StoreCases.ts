import type { StoreCase } from "./StoreCase.ts"
import { accountCases } from "./internal/AccountCases.ts"
import { inboxCases } from "./internal/InboxCases.ts"
import { commitCases } from "./internal/CommitCases.ts"
import { createCases } from "./internal/CreateCases.ts"
import { credentialCases } from "./internal/CredentialCases.ts"
import { deleteCases } from "./internal/DeleteCases.ts"
import { effectCases } from "./internal/EffectCases.ts"
import { feedbackCases } from "./internal/FeedbackCases.ts"
import { fileCases } from "./internal/FileCases.ts"
import { freeSessionCases } from "./internal/FreeSessionCases.ts"
import { gistCases } from "./internal/GistCases.ts"
import { handBackCases } from "./internal/HandBackCases.ts"
import { handOverCases } from "./internal/HandOverCases.ts"
import { idempotencyCases } from "./internal/IdempotencyCases.ts"
import { keyCases } from "./internal/KeyCases.ts"
import { knownToolCases } from "./internal/KnownToolCases.ts"
import { loginCases } from "./internal/LoginCases.ts"
import { leaseCases } from "./internal/LeaseCases.ts"
import { overviewCases } from "./internal/OverviewCases.ts"
import { parkingCases } from "./internal/ParkingCases.ts"
import { planFactCases } from "./internal/PlanFactCases.ts"
import { pushCases } from "./internal/PushCases.ts"
import { readCases } from "./internal/ReadCases.ts"
import { revertCases } from "./internal/RevertCases.ts"
import { scheduleCases } from "./internal/ScheduleCases.ts"
import { sealCases } from "./internal/SealCases.ts"
import { spendingCases } from "./internal/SpendingCases.ts"
import { summaryCases } from "./internal/SummaryCases.ts"
import { takeOverCases } from "./internal/TakeOverCases.ts"
import { taskCases } from "./internal/TaskCases.ts"
import { waitCases } from "./internal/WaitCases.ts"

/** Those of files alone, for a store that keeps their bytes elsewhere. */
export const fileStoreCases: ReadonlyArray<StoreCase> = fileCases

/**
 * What `PlanStore`, `TaskStore`, `PushStore`, `ScheduleStore`, `OverviewStore`, `InboxStore`, `SessionStore`, `LeaseStore`, `CredentialStore`, `FileStore`, `KeyStore`, `LoginStore` and `AccountStore` promise together, one test a promise: every implementation runs all of
 * them. They may share one store.
 */
export const storeCases: ReadonlyArray<StoreCase> = [
  ...createCases,
  ...freeSessionCases,
  ...readCases,
  ...planFactCases,
  ...commitCases,
  ...gistCases,
  ...inboxCases,
  ...waitCases,
  ...parkingCases,
  ...effectCases,
  ...feedbackCases,
  ...knownToolCases,
  ...handBackCases,
  ...summaryCases,
  ...revertCases,
  ...deleteCases,
  ...idempotencyCases,
  ...leaseCases,
  ...takeOverCases,
  ...handOverCases,
  ...credentialCases,
  ...keyCases,
  ...loginCases,
  ...accountCases,
  ...sealCases,
  ...spendingCases,
  ...taskCases,
  ...pushCases,
  ...scheduleCases,
  ...overviewCases,
  ...fileCases
]
