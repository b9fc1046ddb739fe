// Package redact takes out of a record what must not be stored.
//
// A rule names values by JSON pointer (RFC 6901) and says what becomes of them, or is
// a preset that knows by itself where its values stand. All rules apply to the record
// as it came. If several pointers lead to a value, the first one counts. A removed
// value takes its content with it, and no pointer brings back what a preset removes. A
// member that occurs twice matches twice, and names are compared without their
// escapes. Bytes that no rule matches stay unchanged.
package redact

import (
	"fmt"

	"github.com/docket-export/docket/config"
)

// Rule is one item of a source's "redact": a pointer with an action, or a preset.
type Rule struct {
	// Pointer names values, as "/request/object/data/*": "*" stands for every member
	// of an object and for every item of an array.
	Pointer string `yaml:"pointer"`
	// Preset is KubernetesSecrets.
	Preset string `yaml:"preset"`
	// Action says what becomes of the values at Pointer.
	Action Action `yaml:"action"`
	// With is the text that Replace puts in place of a value.
	With string `yaml:"with"`
	// KeyFile holds the key of HMACSHA256, text in one line. It is read again when it
	// changes.
	KeyFile config.SecretFile `yaml:"keyFile"`
}

// Action says what becomes of a value.
type Action string

// The actions of a rule.
const (
	Remove     Action = "Remove"      // take the member or item out
	Replace    Action = "Replace"     // put a text in its place
	HMACSHA256 Action = "HMAC-SHA256" // put "hmac-sha256:<hex>" in its place: equal values stay recognisable
)

// KubernetesSecrets is the preset that removes the secret values of Kubernetes
// Secrets, wherever in the record a Secret is.
const KubernetesSecrets = "kubernetesSecrets"

// maxPointers is how many pointers one source can have: a bit for each in a word.
const maxPointers = 64

// Validate reports every problem of rules, with paths such as "[1].pointer".
func Validate(rules []Rule) config.Problems {
	var p config.Problems
	first := make(map[string]int)
	pointers := 0
	for i, r := range rules {
		at := fmt.Sprintf("[%d]", i)
		p = append(p, r.validate().In(at)...)
		if r.Pointer == "" {
			continue
		}
		if pointers++; pointers == maxPointers+1 {
			p.Addf(at, "exceeds the limit of %d pointers for a source: use \"*\" to combine pointers", maxPointers)
		}
		if j, taken := first[r.Pointer]; taken {
			p.Addf(at+".pointer", "must be unique: [%d] has this pointer", j)
			continue
		}
		first[r.Pointer] = i
	}
	return p
}

func (r Rule) validate() config.Problems {
	var p config.Problems
	switch {
	case r.Pointer == "" && r.Preset == "":
		p.Addf("pointer", "is required, such as /request/object/data/*; or preset: "+KubernetesSecrets)
	case r.Pointer != "" && r.Preset != "":
		p.Addf("preset", "must not be set beside pointer: write two rules")
	case r.Preset != "":
		p.Check("preset", config.Choice(r.Preset, KubernetesSecrets))
		p.Refuse(r.Action != "", "action", "is only for a pointer: a preset has its own action")
	default:
		p.Check("action", config.Choice(r.Action, Remove, Replace, HMACSHA256))
		p.Refuse(r.Action == Replace && r.With == "", "with", "is required for Replace: the text to put in place of the value")
		p.Refuse(r.Action == HMACSHA256 && r.KeyFile == "", "keyFile", "is required for HMAC-SHA256: the file with the key")
	}
	if r.Pointer != "" {
		p.Check("pointer", checkPointer(r.Pointer))
	}
	p.Refuse(r.With != "" && r.Action != Replace, "with", "is only for action Replace")
	p.Refuse(r.KeyFile != "" && r.Action != HMACSHA256, "keyFile", "is only for action HMAC-SHA256")
	return p
}

func checkPointer(pointer string) error {
	_, err := parsePointer(pointer)
	return err
}
