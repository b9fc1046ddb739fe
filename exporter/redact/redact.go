// Package redact takes out of a record what must not be stored.
package redact

import "github.com/docket-export/docket/config"

// Rule is one item of a source's "redact".
type Rule struct {
	Pointer string            `yaml:"pointer"`
	Preset  string            `yaml:"preset"`
	Action  string            `yaml:"action"`
	With    string            `yaml:"with"`
	KeyFile config.SecretFile `yaml:"keyFile"`
}

// Validate reports every problem of rules, with paths such as "[1].pointer".
func Validate(rules []Rule) config.Problems { return nil }
