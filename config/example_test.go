package config_test

import (
	"fmt"

	"github.com/docket-export/docket/config"
)

// Values set before Decode are the defaults.
func ExampleNode_Decode() {
	type httpConfig struct {
		URL     string            `yaml:"url"`
		Timeout config.Duration   `yaml:"timeout"`
		Token   config.SecretFile `yaml:"bearerTokenFile"`
	}
	doc, problems := config.Parse([]byte("url: https://siem.example.com/ingest\nbearerTokenFile: /run/token\n"))
	http := httpConfig{Timeout: 30e9}
	problems = append(problems, doc.Decode(&http)...)
	fmt.Println(http.URL, http.Timeout, problems.Err())

	doc, problems = config.Parse([]byte("ulr: https://siem.example.com/ingest\ntimeout: 5\nurl: a\nurl: b\n"))
	problems = append(problems, doc.Decode(&http)...)
	fmt.Println(doc.Locate(problems).Err())
	// Output:
	// https://siem.example.com/ingest 30s <nil>
	// line 1: ulr: unknown key, did you mean "url"?
	// line 2: timeout: must be a duration such as 500ms, 30s, 5m or 24h, with its unit (a day is 24h), not "5"
	// line 4: url: duplicate key, first on line 3
}
