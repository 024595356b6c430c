{{- /* Scheduling of a pod: node selector, tolerations, affinity, priority; empty values are omitted. */}}
{{- define "sharebroker.placement" -}}
{{- $placement := dict }}
{{- range $field := list "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with index $ $field }}{{ $_ := set $placement $field . }}{{ end }}
{{- end }}
{{- with $placement }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "sharebroker.podSpec" -}}
{{- $root := .root }}
{{- $values := .values -}}
serviceAccountName: {{ include "sharebroker.serviceAccount" $root | quote }}
automountServiceAccountToken: false
# Service links would set environment variables with our prefix.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
securityContext:
  {{- include "sharebroker.podSecurity" 10001 | nindent 2 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if ne $values.spread "None" }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ $values.spread }}
    labelSelector:
      matchLabels:
        {{- include "sharebroker.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $.role }}
  {{- end }}
{{- end }}
{{- with include "sharebroker.placement" $values }}
{{ . }}
{{- end }}
containers:
  - name: {{ .role }}
    {{- include "sharebroker.container" . | nindent 4 }}
  {{- with $values.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- with include "sharebroker.tlsVolume" $root }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- if and $root.Values.auth.enabled (eq .role "group-coordinator") }}
  - name: admin
    secret:
      secretName: {{ include "sharebroker.adminSecret" $root | quote }}
      defaultMode: 0440
  {{- end }}
  {{- if $root.Values.redis.ca.secret }}
  - name: redis-ca
    secret:
      secretName: {{ $root.Values.redis.ca.secret | quote }}
  {{- end }}
  {{- if and $root.Values.upstream.bootstrap $root.Values.upstream.secret }}
  - name: upstream
    secret:
      secretName: {{ $root.Values.upstream.secret | quote }}
      defaultMode: 0440
  {{- end }}
  {{- with $values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "sharebroker.container" -}}
{{- $root := .root }}
{{- $values := .values }}
{{- $kafka := and (eq .role "gateway") $root.Values.kafka.enabled }}
{{- $numbered := eq (include "sharebroker.kind" (list $root .role)) "StatefulSet" -}}
image: {{ include "sharebroker.image" (list $root $root.Values.image) }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
args:
  - serve
  - --roles={{ .role }}
  - --grpc=0.0.0.0:9090
  - --advertise=$(POD_IP):9090
  - --metrics=0.0.0.0:9100
  - --set=cluster.id={{ include "sharebroker.clusterId" $root }}
  {{- if $kafka }}
  - --kafka=0.0.0.0:9092
  - --kafka-advertise={{ include "sharebroker.kafkaAdvertise" $root }}
  {{- else if eq .role "gateway" }}
  - --kafka=none
  {{- end }}
  {{- with $root.Values.upstream }}
  {{- if .bootstrap }}
  - --log=kafka://{{ .bootstrap }}
  {{- if .secret }}
  - --upstream-config=/etc/sharebroker/upstream/{{ .key }}
  {{- end }}
  {{- if and .proxy $kafka }}
  - --proxy
  {{- end }}
  {{- end }}
  {{- end }}
  {{- if include "sharebroker.tlsSecret" $root }}
  - --tls-cert=/etc/sharebroker/tls/tls.crt
  - --tls-key=/etc/sharebroker/tls/tls.key
  - --tls-ca=/etc/sharebroker/tls/ca.crt
  - --tls-server-name={{ include "sharebroker.serverName" $root }}
  - --set=ssl.client.auth={{ $root.Values.tls.clientAuth }}
  {{- end }}
  {{- with $root.Values.auth }}
  {{- if .enabled }}
  - --set=sasl.enabled.mechanisms={{ join "," .mechanisms }}
  - --set=authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
  - {{ printf "--set=super.users=%s" (prepend (default list .superUsers) (printf "User:%s" .admin.user) | join ";") | quote }}
  {{- if eq $.role "group-coordinator" }}
  - --admin-user={{ .admin.user }}
  - --admin-password-file=/etc/sharebroker/admin/{{ .admin.key }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- if $numbered }}
  - --set=node.id=$(POD_INDEX)
  {{- end }}
  {{- range $name, $level := $root.Values.features }}
  - --feature={{ $name }}={{ $level }}
  {{- end }}
  {{- range $key, $value := include "sharebroker.settings" (list $root $values) | fromYaml }}
  - {{ printf "--set=%s=%s" $key (include "sharebroker.scalar" $value) | quote }}
  {{- end }}
env:
  {{- range $name, $path := dict "POD_IP" "status.podIP" "HOST_IP" "status.hostIP" "POD_NAME" "metadata.name" }}
  - name: {{ $name }}
    valueFrom:
      fieldRef:
        fieldPath: {{ $path }}
  {{- end }}
  {{- if $numbered }}
  - name: POD_INDEX
    valueFrom:
      fieldRef:
        fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
  {{- end }}
  {{- if and $root.Values.auth.enabled (eq .role "group-coordinator") }}
  # For `kubectl exec ... sharebroker users add`, as the first user.
  - name: SHAREBROKER_SERVER
    value: {{ include "sharebroker.adminServer" $root | quote }}
  {{- end }}
  {{- include "sharebroker.redisEnv" $root | nindent 2 }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
envFrom:
  - configMapRef:
      name: {{ include "sharebroker.fullname" $root }}
  {{- with $values.extraEnvFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: grpc
    containerPort: 9090
  {{- if $kafka }}
  - name: kafka
    containerPort: 9092
  {{- end }}
  - name: metrics
    containerPort: 9100
{{- range $probe, $path := dict "startup" "/startedz" "readiness" "/readyz" "liveness" "/livez" }}
{{ $probe }}Probe:
  httpGet:
    path: {{ $path }}
    port: metrics
  {{- toYaml (index $root.Values.probes $probe) | nindent 2 }}
{{- end }}
{{- with $values.preStopSeconds }}
# Endpoints are removed before the listeners close.
lifecycle:
  preStop:
    sleep:
      seconds: {{ . }}
{{- end }}
securityContext:
  {{- include "sharebroker.containerSecurity" $root | nindent 2 }}
resources:
  {{- toYaml $values.resources | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- with include "sharebroker.tlsMount" $root }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- if and $root.Values.auth.enabled (eq .role "group-coordinator") }}
  - name: admin
    mountPath: /etc/sharebroker/admin
    readOnly: true
  {{- end }}
  {{- if $root.Values.redis.ca.secret }}
  - name: redis-ca
    mountPath: /etc/sharebroker/redis-ca
    readOnly: true
  {{- end }}
  {{- if and $root.Values.upstream.bootstrap $root.Values.upstream.secret }}
  - name: upstream
    mountPath: /etc/sharebroker/upstream
    readOnly: true
  {{- end }}
  {{- with $values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
