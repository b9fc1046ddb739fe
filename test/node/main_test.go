// Package node tests docket in pods of a real node.
package node

import (
	"os"
	"testing"

	"github.com/docket-export/docket/test/nodetest"
)

func TestMain(m *testing.M) { os.Exit(nodetest.Main(m)) }
