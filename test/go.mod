module github.com/docket-export/docket/test

go 1.26.0

require (
	github.com/docket-export/docket v0.1.0
	github.com/open-policy-agent/gatekeeper/v3 v3.23.1
	github.com/segmentio/kafka-go v0.4.51
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kadm v1.19.0
)

require (
	github.com/docket-export/docket/client v0.1.0
	github.com/docket-export/docket/decision v0.1.0
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
)
