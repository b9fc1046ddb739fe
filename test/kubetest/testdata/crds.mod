// The kinds of the Prometheus operator and of cert-manager for the end-to-end tests.
module docket.dev/test/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
