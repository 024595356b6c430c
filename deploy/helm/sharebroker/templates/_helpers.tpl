{{- define "sharebroker.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "sharebroker.fullname" -}}
{{- $name := include "sharebroker.name" . }}
{{- $whole := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $whole .Values.fullnameOverride | replace "." "-" | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* Releases that share a Redis have separate data, even if 64 characters are too few for both names. */}}
{{- define "sharebroker.clusterId" -}}
{{- $whole := printf "%s_%s" .Release.Namespace (include "sharebroker.fullname" .) }}
{{- $fits := ternary $whole (printf "%s_%s" (trunc 55 $whole) (sha256sum $whole | trunc 8)) (le (len $whole) 64) }}
{{- default $fits .Values.clusterId }}
{{- end }}

{{- define "sharebroker.serviceAccount" -}}
{{- default (ternary (include "sharebroker.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- /* Reference of an image. Call with (list $ .Values.image). */}}
{{- define "sharebroker.image" -}}
{{- $image := index . 1 }}
{{- $image.repository }}{{ with $image.digest }}@{{ . }}{{ else }}:{{ default (index . 0).Chart.AppVersion $image.tag }}{{ end }}
{{- end }}

{{- define "sharebroker.selector" -}}
app.kubernetes.io/name: {{ include "sharebroker.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "sharebroker.labels" -}}
{{ include "sharebroker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/part-of: sharebroker
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* A role's values, merged over roleDefaults. Call with (list $ "gateway"). */}}
{{- define "sharebroker.role" -}}
{{- $root := index . 0 }}
{{- mustMergeOverwrite (deepCopy $root.Values.roleDefaults) (deepCopy (index $root.Values.roles (index . 1))) | toYaml }}
{{- end }}

{{- /* A role's properties, merged over those of all roles. Call with (list $ VALUES). */}}
{{- define "sharebroker.settings" -}}
{{- merge (deepCopy (default dict (index . 1).settings)) (default dict (index . 0).Values.settings) | toYaml }}
{{- end }}

{{- /* The Secret with the certificate; empty without TLS. */}}
{{- define "sharebroker.tlsSecret" -}}
{{- with .Values.tls }}{{ default (ternary (printf "%s-tls" (include "sharebroker.fullname" $)) "" .generate) .secret }}{{ end }}
{{- end }}

{{- /* The Secret with the password of the first user. */}}
{{- define "sharebroker.adminSecret" -}}
{{- default (printf "%s-admin" (include "sharebroker.fullname" .)) .Values.auth.admin.secret }}
{{- end }}

{{- /*
Kafka clients use an address per gateway, and a certificate contains names, not addresses of pods. So with external clients or with TLS,
gateways have numbers.
*/}}
{{- define "sharebroker.kind" -}}
{{- $root := index . 0 }}
{{- ternary "StatefulSet" "Deployment" (and (eq (index . 1) "gateway") $root.Values.kafka.enabled (not (empty (or $root.Values.kafka.external.type (include "sharebroker.tlsSecret" $root))))) }}
{{- end }}

{{- /*
The current number of processes of a role for which autoscaling was turned on later; empty if it always was on. Helm removes a number that it once set, and
Kubernetes defaults a missing number to one. So the chart keeps setting it, and an annotation records that. `helm template` cannot look it up. Call with (list $ "gateway").
*/}}
{{- define "sharebroker.heldReplicas" -}}
{{- $root := index . 0 }}
{{- $name := printf "%s-%s" (include "sharebroker.fullname" $root) (index . 1) }}
{{- with lookup "apps/v1" (include "sharebroker.kind" .) $root.Release.Namespace $name }}
{{- $scaler := lookup "autoscaling/v2" "HorizontalPodAutoscaler" $root.Release.Namespace $name }}
{{- if or (not $scaler) (dig "metadata" "annotations" "sharebroker/replicas" "" .) }}{{ .spec.replicas }}{{ end }}
{{- end }}
{{- end }}

{{- /* The maximum number of gateways. */}}
{{- define "sharebroker.gateways" -}}
{{- $gateway := include "sharebroker.role" (list . "gateway") | fromYaml }}
{{- ternary $gateway.autoscaling.maxReplicas $gateway.replicas $gateway.autoscaling.enabled }}
{{- end }}

{{- define "sharebroker.kafkaAdvertise" -}}
{{- $external := .Values.kafka.external }}
{{- if not $external.type }}
{{- if include "sharebroker.tlsSecret" . }}$(POD_NAME).{{ include "sharebroker.fullname" . }}-headless.{{ .Release.Namespace }}.svc:9092
{{- else }}$(POD_IP):9092{{ end }}
{{- else if $external.advertise }}{{ $external.advertise }}
{{- else }}$(HOST_IP):{{ div $external.nodePort 10 }}$(POD_INDEX)
{{- end }}
{{- end }}

{{- define "sharebroker.serverName" -}}
{{- default (printf "%s.%s.svc" (include "sharebroker.fullname" .) .Release.Namespace) .Values.tls.serverName }}
{{- end }}

{{- /* The gRPC address for `sharebroker --server`, for pods with the Secret mounted. */}}
{{- define "sharebroker.server" -}}
{{- $address := printf "%s:9090" (include "sharebroker.fullname" .) }}
{{- $files := "/etc/sharebroker/tls" }}
{{- if not (include "sharebroker.tlsSecret" .) }}{{ $address }}
{{- else -}}
tls://{{ $address }}?ca={{ $files }}/ca.crt{{ if eq .Values.tls.clientAuth "required" }}&cert={{ $files }}/tls.crt&key={{ $files }}/tls.key{{ end }}{{ if .Values.auth.enabled }}&user={{ .Values.auth.admin.user }}{{ end }}&name={{ include "sharebroker.serverName" . }}
{{- end }}
{{- end }}

{{- /* The same for group coordinators, which have the first user's password in a file. */}}
{{- define "sharebroker.adminServer" -}}
{{ include "sharebroker.server" . }}&password_file=/etc/sharebroker/admin/{{ .Values.auth.admin.key }}
{{- end }}

{{- /* The environment of `sharebroker` in a pod: the server, and the first user's password. */}}
{{- define "sharebroker.clientEnv" -}}
- name: SHAREBROKER_SERVER
  value: {{ include "sharebroker.server" . | quote }}
{{- if .Values.auth.enabled }}
- name: SHAREBROKER_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "sharebroker.adminSecret" . | quote }}
      key: {{ .Values.auth.admin.key | quote }}
{{- end }}
{{- end }}

{{- define "sharebroker.tlsMount" -}}
{{- if include "sharebroker.tlsSecret" . -}}
- name: tls
  mountPath: /etc/sharebroker/tls
  readOnly: true
{{- end }}
{{- end }}

{{- define "sharebroker.tlsVolume" -}}
{{- if include "sharebroker.tlsSecret" . -}}
- name: tls
  secret:
    secretName: {{ include "sharebroker.tlsSecret" . | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- /* Helm reads YAML numbers as floats: 1048576 would be written as 1.048576e+06. */}}
{{- define "sharebroker.scalar" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "sharebroker.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sharebroker.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* The ports of Redis, in JSON. */}}
{{- define "sharebroker.redisPorts" -}}
{{- $ports := list }}
{{- if .Values.redis.url }}
{{- $sentinels := .Values.redis.url | splitList "://" | first | hasSuffix "sentinel" }}
{{- range .Values.redis.url | splitList "://" | last | splitList "/" | first | splitList "," }}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default (ternary "26379" "6379" $sentinels) | int) }}
{{- end }}
{{- if $sentinels }}{{ $ports = append $ports (int .Values.redis.port) }}{{ end }}
{{- else }}
{{- $ports = list (ternary 6379 (int .Values.redis.port) .Values.redis.builtIn.enabled) }}
{{- end }}
{{- range .Values.redis.ports }}{{ $ports = append $ports (int .) }}{{ end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{- define "sharebroker.redisEnv" -}}
{{- $redis := .Values.redis -}}
{{ if $redis.urlSecret.name -}}
- name: SHAREBROKER_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ $redis.urlSecret.name | quote }}
      key: {{ $redis.urlSecret.key | quote }}
{{- else if $redis.url -}}
- name: SHAREBROKER_REDIS
  value: {{ $redis.url | quote }}
{{- else -}}
{{- with $redis.builtIn.password }}
{{- if .secret -}}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{ end }}
{{- end -}}
- name: SHAREBROKER_REDIS
  value: redis://{{ if $redis.builtIn.password.secret }}:$(REDIS_PASSWORD)@{{ end }}{{ include "sharebroker.fullname" . }}-valkey:6379
{{- end }}
{{- if $redis.ca.secret }}
- name: SSL_CERT_FILE
  value: /etc/sharebroker/redis-ca/{{ $redis.ca.key }}
{{- end }}
{{- end }}
