package encoding

import (
	"fmt"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Encoding is one way to write a batch as a request body and to read the answer
// to it. It holds no state: its methods may be called at the same time.
type Encoding interface {
	// ContentType is the media type of the body.
	ContentType() string
	// Query holds parameters for the query of the URL, in the form "a=b&c=d";
	// empty when there are none. One that the URL has already stays as it is there.
	Query() string
	// TokenScheme is the word before a token in the Authorization header:
	// "Bearer" for most.
	TokenScheme() string
	// MaxAnswer is how many bytes of an answer Judge and Status want to see.
	MaxAnswer() int
	// AnswerDecides reports whether the body of a 2xx answer may refuse records, so
	// that they are accepted only once Judge has seen it. Without it the status says all.
	AnswerDecides() bool

	// Append appends b to dst and returns the extended buffer. Record bytes are
	// copied as they are, or so that they come out as they are. A batch without
	// items appends nothing. An error is a *sinks.Failure that names records which
	// the destination must not get.
	Append(dst []byte, b sinks.Batch) ([]byte, error)

	// Verbatim returns what Append would append where b has it already, and else nil.
	// Its bytes are b's.
	Verbatim(b sinks.Batch) []byte

	// Judge reads the answer to b: one of status 2xx, or of a status that Status
	// calls Rejected. body is its first MaxAnswer bytes, or as many as could be
	// read. Nil means that the answer, if it is whole, refuses no item. What is
	// Rejected is so whether or not the answer is whole. Otherwise it returns a *sinks.Failure of any kind, with Items
	// and Each where the answer names items. What is quoted in it is printable, one
	// line and bounded, but may hold whatever was sent, secrets included.
	Judge(status int, body []byte, b sinks.Batch) error

	// Status says what a status other than 2xx means in this protocol, and in hint
	// what to do about it. When ok is false the protocol has no say of its own.
	Status(status int, body []byte) (kind sinks.Kind, hint string, ok bool)
}

// The names of the encodings.
const (
	ndjsonName            = "ndjson"
	jsonArrayName         = "jsonArray"
	cloudEventsName       = "cloudEvents"
	otlpName              = "otlp"
	splunkHECName         = "splunkHEC"
	elasticsearchBulkName = "elasticsearchBulk"
	lokiName              = "loki"
)

// Names lists the encodings there are, the default first.
var Names = []string{ndjsonName, jsonArrayName, cloudEventsName, otlpName, splunkHECName, elasticsearchBulkName, lokiName}

// Config holds the options of the encodings that have any, each below a key that
// is the encoding's name. A section that is nil, and an option that is zero, has
// its default.
type Config struct {
	// Encoding is how a batch becomes a request body, one of Names.
	Encoding          string             `yaml:"encoding"`
	CloudEvents       *CloudEvents       `yaml:"cloudEvents"`
	OTLP              *OTLP              `yaml:"otlp"`
	SplunkHEC         *SplunkHEC         `yaml:"splunkHEC"`
	ElasticsearchBulk *ElasticsearchBulk `yaml:"elasticsearchBulk"`
	Loki              *Loki              `yaml:"loki"`
}

// Rules implements config.Ruled.
func (Config) Rules() []config.Rule {
	rules := []config.Rule{config.OneOf("encoding", Names...)}
	for _, name := range []string{cloudEventsName, otlpName, splunkHECName, elasticsearchBulkName, lokiName} {
		text := "has no effect without encoding: " + name + ": set it, or remove this section"
		rules = append(rules, config.Forbidden(name, text).When(config.Is("encoding", name).Not()))
	}
	return rules
}

// ValidateMaps reports attributes and labels that cannot be: what the rules do not tell
// of. Paths are relative to the section that c is part of.
func (c *Config) ValidateMaps() config.Problems {
	var p config.Problems
	if c.OTLP != nil {
		p = append(p, c.OTLP.validate().In(otlpName)...)
	}
	if c.Loki != nil {
		p = append(p, c.Loki.validate().In(lokiName)...)
	}
	return p
}

// New returns the named encoding. c must have been validated for it.
func New(encoding string, c Config) (Encoding, error) {
	switch encoding {
	case ndjsonName:
		return newNDJSON(), nil
	case jsonArrayName:
		return newJSONArray(), nil
	case cloudEventsName:
		return newCloudEvents(orDefault(c.CloudEvents)), nil
	case otlpName:
		return newOTLP(orDefault(c.OTLP)), nil
	case splunkHECName:
		return newSplunkHEC(orDefault(c.SplunkHEC)), nil
	case elasticsearchBulkName:
		return newElasticsearchBulk(orDefault(c.ElasticsearchBulk))
	case lokiName:
		return newLoki(orDefault(c.Loki)), nil
	}
	return nil, fmt.Errorf("encoding %q is not known", encoding)
}

// orDefault is what section points to, or the zero value, which is the defaults.
func orDefault[T any](section *T) T {
	if section == nil {
		var none T
		return none
	}
	return *section
}
