// Command docket is the sidecar that takes decision logs in, keeps them on disk
// and delivers them to its sinks, and the command line around it.
package main

import (
	"github.com/docket-export/docket/cli"
	"github.com/docket-export/docket/cli/builtin"
)

func main() { cli.Main(builtin.Kinds()) }
