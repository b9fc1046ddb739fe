module otelcol

go 1.25.0

require (
	github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage v0.155.0
	go.opentelemetry.io/collector/component v1.61.0
	go.opentelemetry.io/collector/confmap v1.61.0
	go.opentelemetry.io/collector/confmap/provider/fileprovider v1.61.0
	go.opentelemetry.io/collector/exporter v1.61.0
	go.opentelemetry.io/collector/exporter/otlphttpexporter v0.155.0
	go.opentelemetry.io/collector/extension v1.61.0
	go.opentelemetry.io/collector/otelcol v0.155.0
	go.opentelemetry.io/collector/receiver v1.61.0
	go.opentelemetry.io/collector/receiver/otlpreceiver v0.155.0
	go.opentelemetry.io/collector/service v0.155.0
)
