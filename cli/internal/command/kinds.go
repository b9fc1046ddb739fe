package command

import (
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks/filesink"
	"github.com/docket-export/docket/sources/streamsource"
)

// HandOver gives the sources of cfg the sockets that this process was started with.
func HandOver(cfg *exporter.Config, sockets *streamsource.Inherited) {
	for _, s := range cfg.Sources {
		switch c := s.Config.(type) {
		case *streamsource.UnixConfig:
			c.Sockets = sockets
		case *streamsource.TCPConfig:
			c.Sockets = sockets
		}
	}
}

// SocketPath is where producers reach the first source that has a Unix domain
// socket of its own; "" when there is none.
func SocketPath(cfg *exporter.Config) string {
	for _, s := range cfg.Sources {
		if c, ok := s.Config.(*streamsource.UnixConfig); ok && c.Path != "" {
			return c.Path
		}
	}
	return ""
}

// ExportDirectory is where the first file sink writes; "" when there is none.
func ExportDirectory(cfg *exporter.Config) string {
	for _, s := range cfg.Sinks {
		if c, ok := s.Config.(*filesink.Config); ok {
			return c.Directory
		}
	}
	return ""
}
