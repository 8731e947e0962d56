import { render } from "preact"
import { watchPending } from "./approval/Pending.ts"
import { Console } from "./Console.tsx"
import { watchConfig } from "./gateway/Config.ts"
import { watchTab } from "./gateway/Gateway.ts"
import { watchVisibility } from "./live/Visibility.ts"
import { takeLinks } from "./route/Location.ts"
import "./style.css"

takeLinks()
watchTab()
watchVisibility()
watchConfig()
watchPending()
render(<Console />, document.body)
