import { type Array as Arrays, Context, Effect, Layer } from "effect"
import { Provider } from "./Provider.ts"

/** One key of a provider: `<provider>-1`, `<provider>-2` …, and the adapter that asks with it. */
export interface ProviderCredential {
  readonly id: string
  readonly provider: Provider["Service"]
}

/** A provider by its name (`openai`), with its credentials. */
export interface ConfiguredProvider {
  readonly name: string
  /** In the order of the configuration. */
  readonly credentials: Arrays.NonEmptyReadonlyArray<ProviderCredential>
}

/**
 * The providers that are configured, each with its credentials.
 *
 * @example
 * ```ts
 * import * as OpenAiProvider from "@bowline/provider-openai/provider/OpenAiProvider"
 * import { Providers } from "@bowline/runtime/provider/Providers"
 * import { Config } from "effect"
 *
 * export const All = Providers.layer([
 *   OpenAiProvider.layerChatConfig({ apiKey: Config.Redacted("OPENAI_API_KEY") }),
 *   OpenAiProvider.layerChat({ name: "local", baseUrl: "http://127.0.0.1:8000/v1" })
 * ])
 * ```
 */
export class Providers extends Context.Service<
  Providers,
  {
    readonly get: (name: string) => ConfiguredProvider | undefined
    readonly all: ReadonlyArray<ConfiguredProvider>
  }
>()("@bowline/runtime/provider/Providers") {
  /** One layer for each credential. Layers whose providers have the same name form its pool, in this order. */
  static readonly layer = <E, R>(adapters: ReadonlyArray<Layer.Layer<Provider, E, R>>) =>
    Layer.effect(
      Providers,
      Effect.map(
        Effect.forEach(adapters, (adapter) => Layer.build(Layer.fresh(adapter))),
        (built) => make(built.map((context) => Context.get(context, Provider)))
      )
    )

  /** For an app with one provider that has one credential. */
  static readonly layerProvider: Layer.Layer<Providers, never, Provider> = Layer.effect(
    Providers,
    Effect.map(Provider, (provider) => make([provider]))
  )
}

const make = (adapters: ReadonlyArray<Provider["Service"]>): Providers["Service"] => {
  const configured = new Map<string, ConfiguredProvider>()
  for (const provider of adapters) {
    const { name } = provider
    const others = configured.get(name)?.credentials ?? []
    const credential = { id: `${name}-${others.length + 1}`, provider }
    configured.set(name, { name, credentials: [...others, credential] as const })
  }
  return { get: (name) => configured.get(name), all: Array.from(configured.values()) }
}
