# Why it is built like this: docs/decisions/0077-the-image-runs-the-packages.md
FROM node:24-bookworm-slim AS pack
WORKDIR /app
COPY . .
RUN npm run pack

FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json pnpm-lock.yaml pnpm-workspace.yaml ./
COPY packages packages
COPY apps/gateway apps/gateway
COPY --from=pack /app/.bowline/packed packed
# The root has the effect that is an optional peer of @bowline/client.
RUN npx -y pnpm@12.21.0 install --frozen-lockfile --prod --filter-prod "@bowline/gateway..."
# What is published takes the place of the sources. The image has Node.js itself.
RUN for tarball in packed/*.tgz; do \
    name=${tarball#packed/bowline-}; \
    folder=packages/${name%%-[0-9]*}; \
    if [ ! -d "$folder" ]; then folder=apps/gateway; fi; \
    tar --extract --gzip --file "$tarball" --directory "$folder" --strip-components 1; \
  done \
  && rm -rf packed packages/testing packages/*/src apps/gateway/src node_modules/.pnpm/effect@*/node_modules/effect/src \
  && rm -rf node_modules/node node_modules/.bin node_modules/.pnpm/node@* node_modules/.pnpm/node_modules/node* \
  && find . -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.cts' -o -name '*.d.mts' \) -delete

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="Bowline" \
  org.opencontainers.image.description="An agent gateway that never gets stuck" \
  org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
  && apt-get install -y --no-install-recommends tini \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY --from=build /app /app
RUN ln -s /app/apps/gateway/bin/bowline.mjs /usr/local/bin/bowline \
  && install -d -o 65532 -g 65532 /data /app/.cache
ENV NODE_ENV=production NODE_COMPILE_CACHE=/app/.cache BOWLINE_HOST=0.0.0.0
USER 65532:65532
# The working directory: here are the configuration file, the recipes and, in `.bowline`, the embedded database.
WORKDIR /data
# Starts the gateway once, which fails here rather than at the first deployment, and keeps what Node.js has compiled.
RUN BOWLINE_HOST=127.0.0.1 BOWLINE_DATA_DIR=memory: bowline serve & \
  timeout 120 sh -c 'until node -e "fetch(\"http://127.0.0.1:3774/ready\").then(({ ok }) => process.exit(ok ? 0 : 1))" 2> /dev/null; do sleep 1; done' \
  && kill $! && wait $!
VOLUME /data
EXPOSE 3774
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.BOWLINE_PORT || 3774}/health`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/usr/bin/tini", "--", "bowline"]
CMD ["serve"]
