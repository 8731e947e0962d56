{{- define "bowline.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "bowline.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bowline.metadata" -}}
name: {{ include "bowline.name" . }}
labels:
  {{- include "bowline.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "bowline.files" -}}
{{- if .Values.config }}
bowline.config.yaml: |
  {{- toYaml .Values.config | nindent 2 }}
{{- end }}
{{- range $name, $text := .Values.recipes }}
{{ $name }}: {{ $text | quote }}
{{- end }}
{{- end }}

{{- define "bowline.check" -}}
{{- $secrets := list "DATABASE_URL" "BOWLINE_API_KEYS" "BOWLINE_API_KEY" "BOWLINE_SECRET_KEY" "BOWLINE_DID_SEED" "OPENAI_API_KEY" "OPENAI_API_KEYS" "ANTHROPIC_API_KEY" "ANTHROPIC_API_KEYS" "OPENROUTER_API_KEY" "OPENROUTER_API_KEYS" "OTEL_EXPORTER_OTLP_HEADERS" "OTEL_EXPORTER_OTLP_TRACES_HEADERS" "OTEL_EXPORTER_OTLP_METRICS_HEADERS" "OTEL_EXPORTER_OTLP_LOGS_HEADERS" -}}
{{- $own := dict "BOWLINE_HOST" "it is 0.0.0.0 in a pod" "BOWLINE_PORT" "it is 3774 in a pod" "BOWLINE_SHUTDOWN_GRACE" "set shutdownGraceSeconds" "BOWLINE_CONFIG" "set config" "BOWLINE_RECIPES_DIR" "set recipes" "POD_IP" "it is the pod's address" -}}
{{- range $variable, $value := .Values.settings -}}
{{- if has $variable $secrets }}{{ fail (printf "settings.%s: it is a secret. Name its Secret in secrets.%s" $variable $variable) }}{{ end -}}
{{- with get $own $variable }}{{ fail (printf "settings.%s: it has no effect here: %s" $variable .) }}{{ end -}}
{{- if hasKey $.Values.secrets $variable }}{{ fail (printf "settings.%s: secrets.%s sets it, too. Keep one" $variable $variable) }}{{ end -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.secrets.DATABASE_URL) -}}
{{- fail "replicas: more than one needs Postgres. Name the Secret with its URL in secrets.DATABASE_URL, or set replicas to 1" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.credentials.name) (ne (.Values.settings.BOWLINE_METRICS_PUBLIC | default "") "true") -}}
{{- fail "serviceMonitor.credentials: /metrics needs the key of a caller. Name its Secret, or set settings.BOWLINE_METRICS_PUBLIC to \"true\"" -}}
{{- end -}}
{{- end }}
