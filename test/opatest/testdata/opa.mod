// Open Policy Agent for the end-to-end tests.
module docket.dev/test/opa

go 1.26.0

require github.com/open-policy-agent/opa v1.22.0
