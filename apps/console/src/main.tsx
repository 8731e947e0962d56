import { render } from "preact"
import { watchPending } from "./approval/Pending.ts"
import { watchConfig } from "./gateway/Config.ts"
import { watchTab } from "./gateway/Gateway.ts"
import { watchVisibility } from "./live/Visibility.ts"
import { takeLinks } from "./route/Location.ts"
import { Shell } from "./shell/Shell.tsx"
import "./style.css"

takeLinks()
watchTab()
watchVisibility()
watchConfig()
watchPending()
render(<Shell />, document.body)
