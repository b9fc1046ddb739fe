// Command docket-webhook is a policy webhook and audit for Kubernetes whose every decision is on
// disk.
package main

import "github.com/docket-export/docket/webhook/engine/cli"

func main() { cli.Main() }
