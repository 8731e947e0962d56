#!/usr/bin/env bash
# Whether an image is what a deployment needs: check-image.sh <image>. Needs Docker, curl and jq.
set -euo pipefail
image=$1
fail() {
  echo "check-image: $1" >&2
  exit 1
}

size=$(docker image inspect --format '{{.Size}}' "$image")
echo "$image has $((size / 1000000)) MB"
[ "$size" -le 300000000 ] || fail "more than 300 MB"
[ "$(docker run --rm --entrypoint node "$image" --print 'process.getuid()')" = 65532 ] || fail "does not run as the user 65532"
for program in npm npx pnpm yarn corepack gcc make python3; do
  ! docker run --rm --entrypoint which "$image" "$program" || fail "has $program"
done

container=$(docker run --detach --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges:true \
  --env BOWLINE_API_KEYS=ann=secret --publish 127.0.0.1::3774 "$image" serve --demo)
trap 'docker logs "$container" >&2; docker rm --force "$container" > /dev/null' EXIT
url=http://$(docker port "$container" 3774)
for _ in $(seq 60); do
  [ "$(docker inspect --format '{{.State.Health.Status}}' "$container")" = healthy ] && break
  sleep 1
done
[ "$(docker inspect --format '{{.State.Health.Status}}' "$container")" = healthy ] || fail "is not healthy after a minute"

state=$(curl --fail --silent --show-error --max-time 60 --header 'authorization: Bearer secret' --header 'accept: application/json' \
  --json '{ "question": "What is a bowline?" }' "$url/plan" | jq --raw-output .state)
[ "$state" = completed ] || fail "its plan is $state"
[ "$(curl --silent --output /dev/null --write-out '%{http_code}' --header 'accept: text/html' "$url/")" = 200 ] || fail "has no console"
docker stop --time 45 "$container" > /dev/null
code=$(docker inspect --format '{{.State.ExitCode}}' "$container")
[ "$code" = 0 ] || fail "ends at SIGTERM with $code"
trap - EXIT
docker rm "$container" > /dev/null
echo "$image is healthy, answers, and ends at SIGTERM"
