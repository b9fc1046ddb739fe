package main

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

// kinds lists the sources and sinks of this program, in the order in which
// messages name them.
func kinds() exporter.Kinds {
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

// handOver gives the sources of cfg the sockets that this process was started with.
func handOver(cfg *exporter.Config, sockets *streamsource.Inherited) {
	for _, s := range cfg.Sources {
		switch c := s.Config.(type) {
		case *streamsource.UnixConfig:
			c.Sockets = sockets
		case *streamsource.TCPConfig:
			c.Sockets = sockets
		}
	}
}

// socketPath is where producers reach the first source that has a Unix domain
// socket of its own; "" when there is none.
func socketPath(cfg *exporter.Config) string {
	for _, s := range cfg.Sources {
		if c, ok := s.Config.(*streamsource.UnixConfig); ok && c.Path != "" {
			return c.Path
		}
	}
	return ""
}

// exportDirectory is where the first file sink writes; "" when there is none.
func exportDirectory(cfg *exporter.Config) string {
	for _, s := range cfg.Sinks {
		if c, ok := s.Config.(*filesink.Config); ok {
			return c.Directory
		}
	}
	return ""
}
