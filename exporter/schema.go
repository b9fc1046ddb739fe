package exporter

import "github.com/docket-export/docket/config"

// Schema returns the JSON Schema of the configuration files that Load accepts with kinds: their
// keys, and the types of the values. Describe says what is at a path such as "sinks[].http.url",
// or nothing.
func Schema(kinds Kinds, describe func(path string) string) map[string]any {
	doc := defaultDocument()
	root := config.Schema(&doc, "", describe)

	source := config.Schema(&sourceEntry[config.Node]{}, "sources[]", describe)
	for _, d := range kinds.Sources {
		properties(source)[d.Kind] = config.Schema(d.NewConfig(), "sources[]."+d.Kind, describe)
	}
	sink := config.Schema(&sinkEntry[config.Node]{SinkConfig: defaultSink()}, "sinks[]", describe)
	for _, d := range kinds.Sinks {
		properties(sink)[d.Kind] = config.Schema(d.NewConfig(), "sinks[]."+d.Kind, describe)
	}
	for list, entry := range map[string]map[string]any{"sources": source, "sinks": sink} {
		entry["additionalProperties"] = false
		properties(root)[list].(map[string]any)["items"] = entry
	}
	return root
}

func properties(section map[string]any) map[string]any { return section["properties"].(map[string]any) }
