module github.com/docket-export/docket/webhook

go 1.26.0

require (
	github.com/docket-export/docket/client v0.1.0
	github.com/docket-export/docket/decision v0.1.0
)
