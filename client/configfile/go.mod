module github.com/docket-export/docket/client/configfile

go 1.26.0

require (
	github.com/docket-export/docket/client v0.1.0
	github.com/docket-export/docket/decision v0.1.0
	go.yaml.in/yaml/v3 v3.0.6
)
