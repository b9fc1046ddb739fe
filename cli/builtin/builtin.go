// Package builtin lists the sources and sinks that come with docket.
package builtin

import (
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink"
	"github.com/docket-export/docket/sinks/httpsink"
	"github.com/docket-export/docket/sinks/kafkasink"
	"github.com/docket-export/docket/sinks/stdoutsink"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/gatekeepersource"
	"github.com/docket-export/docket/sources/kubeauditsource"
	"github.com/docket-export/docket/sources/opasource"
	"github.com/docket-export/docket/sources/streamsource"
	"github.com/docket-export/docket/sources/tailsource"
)

// Kinds returns the sources and sinks that come with docket, in the order in which
// messages name them.
func Kinds() exporter.Kinds {
	return exporter.Kinds{
		Sources: sources.Registry{
			streamsource.UnixDefinition,
			streamsource.TCPDefinition,
			gatekeepersource.Definition,
			opasource.Definition,
			kubeauditsource.Definition,
			tailsource.Definition,
		},
		Sinks: sinks.Registry{
			filesink.Definition,
			httpsink.Definition,
			kafkasink.Definition,
			stdoutsink.Definition,
		},
	}
}
