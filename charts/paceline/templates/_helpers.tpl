{{- define "paceline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The release's name, unless that says "paceline" already. */}}
{{- define "paceline.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "paceline.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "paceline.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "paceline.serviceAccountName" -}}
{{- default (include "paceline.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "paceline.selectorLabels" -}}
app.kubernetes.io/name: {{ include "paceline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* managed-by is Helm's here: the operator's own children carry managed-by=paceline, and are found by it. */}}
{{- define "paceline.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "paceline.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "paceline.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}
