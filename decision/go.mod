module github.com/docket-export/docket/decision

go 1.26.0
