package configfile_test

import (
	"fmt"
	"log"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/configfile"
	"github.com/docket-export/docket/decision"
)

// The engine has one flag, the path of a file. Without the flag nothing runs: a
// nil *Client is one that is off.
func Example() {
	var path string // from a flag such as --docket-config
	var c *client.Client
	if path != "" {
		config, err := configfile.Load(path)
		if err != nil {
			log.Fatal(err)
		}
		if c, err = client.New(config); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(c.Enabled(), c.TryLog(&decision.Record{Decision: decision.Allow}))
	// Output: false <nil>
}
