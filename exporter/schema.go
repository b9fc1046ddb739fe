package exporter

import (
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Schema returns the shape of the configuration files that Load takes with kinds. Describe
// says what is at a path such as "sinks[].http.url", or nothing. The schema refuses nothing
// that Load takes; Load refuses more, such as what two sections have to agree on.
func Schema(kinds Kinds, describe func(path string) string) config.Shape {
	doc := defaultDocument()
	root := config.Schema(&doc, "", describe)

	source := config.Schema(&sourceEntry[config.Node]{}, "sources[]", describe)
	for _, d := range kinds.Sources {
		c := d.NewConfig()
		source.AddKind(d.Kind, config.Schema(c, "sources[]."+d.Kind, describe), len(c.Validate()) == 0)
	}
	root.Property("sources")["items"] = source

	defaults := defaultSink()
	defaults.Batch = sinks.DefaultBatch()
	sink := config.Schema(&sinkEntry[config.Node]{SinkConfig: defaults}, "sinks[]", describe)
	for _, key := range config.Keys[sinks.BatchLimits]() {
		delete(sink.Property("batch").Property(key), "default") // that of the kind
	}
	for _, d := range kinds.Sinks {
		c := d.NewConfig()
		sink.AddKind(d.Kind, config.Schema(c, "sinks[]."+d.Kind, describe), len(c.Validate()) == 0)
	}
	root.Property("sinks")["items"] = sink
	return root
}
