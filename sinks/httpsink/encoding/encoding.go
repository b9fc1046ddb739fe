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
	// Acceptance is how an answer begins that may say that the batch was taken.
	Acceptance() Acceptance
	// AnswerDecides reports whether the body of a 2xx answer may refuse records: then
	// they are accepted only once Judge has seen the body. Otherwise the status alone
	// and Content-Type
	// decide.
	AnswerDecides() bool

	// Append appends b to dst and returns the extended buffer. Record bytes are
	// copied unchanged, or encoded so that they decode unchanged. A batch without
	// items appends nothing. An error is a *sinks.Failure that names records which
	// the destination must not get.
	Append(dst []byte, b sinks.Batch) ([]byte, error)

	// Judge reads the answer to b: one with status 2xx (that Acceptance allows, where AnswerDecides), or with a status that Status calls Rejected.
	// body is the whole answer where AnswerDecides. Nil means that it
	// refuses no item. Otherwise Judge returns a *sinks.Failure of any kind, with Items and
	// Each if the answer names items. Quotes in
	// the failure are printable, bounded and on one line, but may hold anything that was sent, secrets
	// included.
	Judge(status int, body []byte, b sinks.Batch) error

	// Status says what a status other than 2xx means in this protocol, and in hint
	// what to do about it. ok is false when the protocol does not define the
	// status.
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

// Names lists the encodings, the default first.
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

// Validate reports an unknown encoding, options of another one and invalid options. Paths are
// relative to the section that c is part of.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	p.Check("encoding", config.Choice(c.Encoding, Names...))
	section := func(name string, given bool, validate func() config.Problems) {
		if given && c.Encoding != name {
			p.Addf(name, "has no effect without encoding: %s: set it, or remove this section", name)
		} else if given {
			p = append(p, validate().In(name)...)
		}
	}
	section(cloudEventsName, c.CloudEvents != nil, c.CloudEvents.validate)
	section(otlpName, c.OTLP != nil, c.OTLP.validate)
	section(splunkHECName, c.SplunkHEC != nil, c.SplunkHEC.validate)
	section(elasticsearchBulkName, c.ElasticsearchBulk != nil, c.ElasticsearchBulk.validate)
	section(lokiName, c.Loki != nil, c.Loki.validate)
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
