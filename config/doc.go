// Package config reads configuration files: strictly, with every problem at once, each with its
// path and line. It knows YAML and the shapes that several parts share: sizes, durations, secret
// files, TLS files. Each part of docket owns its typed configuration, its defaults and its
// Validate.
//
// The steps from bytes to a checked configuration:
//
//	doc, problems := config.Parse(data)                          // is it YAML we take?
//	problems = append(problems, doc.Decode(&cfg)...)             // does it fit the types?
//	problems = append(problems, cfg.Validate().In("section")...) // does it make sense?
//	err := doc.Locate(problems).Err()                            // with lines, in their order
package config
