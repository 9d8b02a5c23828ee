{{/* The end of all names but the driver's: a release with another name than the driver's own has its name there. */}}
{{- define "csimux.suffix" -}}
{{- $usual := eq .Values.mode "node-local" | ternary "-local" "" }}
{{- .Values.nameSuffix | default (has .Release.Name (list "csimux" "csimux-local") | ternary $usual (printf "-%s" (trimPrefix "csimux-" .Release.Name))) -}}
{{- end }}

{{- define "csimux.driver" -}}
{{- .Values.driverName | default (eq .Values.mode "node-local" | ternary "csimux.storage-local" "csimux.storage") -}}
{{- end }}

{{- define "csimux.image" -}}
{{- $name := required "image.repository is required: the image that the cluster pulls (--set image.repository=...)" .Values.image.repository -}}
{{- with .Values.image.digest -}}
{{ $name }}@{{ . }}
{{- else -}}
{{ $name }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "csimux.secret" -}}
{{- .Values.existingSecret | default (printf "csimux-connections%s" (include "csimux.suffix" .)) -}}
{{- end }}

{{/* The labels of a workload, its pods and their selectors. */}}
{{- define "csimux.labels" -}}
app.kubernetes.io/name: csimux
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The main file. */}}
{{- define "csimux.main" -}}
{{- if .Values.main }}
{{- if .Values.groups }}{{ fail "groups and main are given: write the groups in main" }}{{ end }}
{{- if not (regexMatch `configFolder["']?: *["']?/connections\b` .Values.main) }}{{ fail "main must have the configFolder /connections" }}{{ end }}
{{- .Values.main }}
{{- else }}
{{- $proxy := dict "configFolder" "/connections" }}
{{- if eq .Values.mode "node-local" }}{{ $_ := set $proxy "nodeTopology" (dict "type" "node") }}{{ end }}
{{- with .Values.groups }}{{ $_ := set $proxy "groups" . }}{{ end }}
{{- toYaml (dict "driver" "proxy" "proxy" $proxy) }}
{{- end }}
{{- end }}

{{/* The name of its ConfigMap: another main file restarts the pods, because nodes read parts of it only at the start. */}}
{{- define "csimux.config" -}}
csimux-config{{ include "csimux.suffix" . }}-{{ include "csimux.main" . | sha256sum | trunc 10 }}
{{- end }}

{{/* The name of the ConfigMap with further certificates: other certificates restart the pods, which read them only at the start. */}}
{{- define "csimux.ca" -}}
csimux-ca{{ include "csimux.suffix" . }}-{{ sha256sum .Values.extraCaCerts | trunc 10 }}
{{- end }}

{{/* A variable with a field of the pod. */}}
{{- define "csimux.field" -}}
- name: {{ index . 0 }}
  valueFrom:
    fieldRef:
      fieldPath: {{ index . 1 }}
{{- end }}

{{/* The driver of each connection, in JSON: those that zfs-generic reaches by ssh end in "+ssh". Empty if the chart does not know them. */}}
{{- define "csimux.drivers" -}}
{{- $drivers := list }}
{{- if not .Values.existingSecret }}
{{- range .Values.connections }}
{{- $file := fromYaml . }}
{{- $ssh := or $file.sshConnection (contains "sshConnection" $.Values.main) }}
{{- $drivers = append $drivers (printf "%v%s" $file.driver (ternary "+ssh" "" (not (not $ssh)))) }}
{{- end }}
{{- end }}
{{- toJson $drivers -}}
{{- end }}

{{/* Not empty if the controller is privileged: as the values say, or unless no connection needs it. */}}
{{- define "csimux.privileged" -}}
{{- $drivers := include "csimux.drivers" . | fromJsonArray }}
{{- if kindIs "bool" .Values.controller.privileged }}
{{- ternary "yes" "" .Values.controller.privileged -}}
{{- else if not $drivers -}}
unknown
{{- else }}
{{- range $drivers }}
{{- if not (regexMatch `^((freenas|truenas|synology)-.*|node-manual(\+ssh)?|zfs-generic-.*\+ssh)$` .) }}{{ . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty if node plugins get the host's root: as the values say, or unless all connections serve NFS and SMB shares. */}}
{{- define "csimux.hostRoot" -}}
{{- $drivers := include "csimux.drivers" . | fromJsonArray }}
{{- if kindIs "bool" .Values.node.hostRoot }}
{{- ternary "yes" "" .Values.node.hostRoot -}}
{{- else if or (not $drivers) (regexMatch "/host|iqn|nqn" .Values.main) (contains "USE_HOST_MOUNT_TOOLS" (toJson .Values.node.extraEnv)) -}}
unknown
{{- else }}
{{- range $drivers }}
{{- if not (regexMatch `^(((freenas|truenas)(-api)?|synology|zfs-generic)-(nfs|smb)|(nfs|smb)-client)(\+ssh)?$` .) }}{{ . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The security context of a container without rights on its node. */}}
{{- define "csimux.unprivileged" -}}
{{- if and (eq .Values.mode "central") (not (include "csimux.privileged" .)) }}
privileged: false
{{- end }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* A sidecar: root, name, socket (the volume), args, env (pairs of variable and field), cpu. */}}
{{- define "csimux.sidecar" -}}
- name: {{ .name }}
  image: {{ index .root.Values.sidecars .name }}
  args:
    - --csi-address=/csi/csi.sock
    {{- range .args }}
    - {{ . }}
    {{- end }}
    - --timeout=60s
    - --v=2
  env:
    {{- range .env }}
    {{- include "csimux.field" . | nindent 4 }}
    {{- end }}
  resources:
    requests:
      cpu: {{ .cpu }}
      memory: 32Mi
  securityContext:
    {{- include "csimux.unprivileged" .root | trim | nindent 4 }}
  {{- with .ports }}
  ports:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: {{ .socket }}
      mountPath: /csi
    {{- with .mounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* A binding of a role to an account: root, kind, role, account. */}}
{{- define "csimux.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .role }}
  {{- if eq .kind "Role" }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    app.kubernetes.io/instance: {{ .root.Release.Name }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Not empty if the main file has topology rules over labels of nodes, for which a node plugin reads its Node. */}}
{{- define "csimux.nodeLabels" -}}
{{- regexFind "nodeLabel" .Values.main -}}
{{- end }}

{{/* The Secrets that classes of the chart name for the sidecars: JSON of names by namespace; "*" for names with variables of claims. */}}
{{- define "csimux.secrets" -}}
{{- $found := dict }}
{{- range concat (.Values.storageClasses | default list) (.Values.volumeSnapshotClasses | default list) (.Values.volumeGroupSnapshotClasses | default list) }}
{{- $parameters := .parameters | default dict }}
{{- range $key, $name := $parameters }}
{{- if regexMatch "^(csi|groupsnapshot).storage.k8s.io/(controller|provisioner|snapshotter|group-snapshotter)[a-z-]*secret-name$" $key }}
{{- $space := get $parameters (printf "%snamespace" (trimSuffix "name" $key)) }}
{{- if or (contains "$" $name) (contains "$" $space) (not $space) }}
{{- $_ := set $found "*" list }}
{{- else }}
{{- $_ := set $found $space (append (get $found $space | default list) $name | uniq) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $found -}}
{{- end }}

{{/* Permission of the sidecars to read any Secret, only if the name of one in a class has variables of claims. */}}
{{- define "csimux.secretsRule" -}}
{{- if hasKey (include "csimux.secrets" . | fromJson) "*" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end -}}
{{- end }}

{{/* Roles that allow an account to read only the Secrets that classes name: root, role, account. */}}
{{- define "csimux.secretsRoles" -}}
{{- $ := . }}
{{- range $space, $names := omit (include "csimux.secrets" .root | fromJson) "*" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $.role }}
  namespace: {{ $space }}
  labels:
    app.kubernetes.io/instance: {{ $.root.Release.Name }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames: {{ toJson $names }}
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $.role }}
  namespace: {{ $space }}
  labels:
    app.kubernetes.io/instance: {{ $.root.Release.Name }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $.role }}
subjects:
  - kind: ServiceAccount
    name: {{ $.account }}
    namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}
