#!/usr/bin/env bash
# Installs the chart in a cluster of its own and asks it, once with each database: check-chart.sh <image>. Needs Docker, kind, kubectl and Helm.
set -euo pipefail
image=$1
export KUBECONFIG
KUBECONFIG=$(mktemp)
trap 'kubectl get pods; kubectl logs --selector app.kubernetes.io/name=bowline --tail 50 || true; kind delete cluster --name bowline' EXIT
kind create cluster --name bowline --wait 2m
kind load docker-image "$image" --name bowline
kubectl create secret generic bowline --from-literal=BOWLINE_API_KEYS=ann=secret

# The name of the release, which is that of the Service, and values of the chart.
install() {
  helm upgrade --install --wait --timeout 5m "$@" charts/bowline \
    --set demo=true,image.repository="${image%:*}",image.tag="${image#*:}",image.pullPolicy=Never
}
ask() {
  kubectl exec "deployment/$1" -- env BOWLINE_API_KEY=secret bowline ask "What is a bowline?"
}

install bowline
ask bowline
# The volume has the session: it is there after another process has taken it.
kubectl rollout restart deployment/bowline
kubectl rollout status deployment/bowline --timeout 3m
kubectl exec deployment/bowline -- env BOWLINE_API_KEY=secret bowline plans | grep completed
helm uninstall bowline --wait
kubectl get persistentvolumeclaim bowline

kubectl run postgres --image postgres:18 --port 5432 --expose --env POSTGRES_PASSWORD=secret
kubectl wait --for condition=Ready pod/postgres --timeout 3m
kubectl create secret generic db --from-literal=uri=postgres://postgres:secret@postgres/postgres
install shop-bowline --set replicas=2,secrets.DATABASE_URL.name=db,secrets.DATABASE_URL.key=uri,networkPolicy.enabled=true
ask shop-bowline
install shop-bowline --reuse-values --set podAnnotations.rolled=again
ask shop-bowline
