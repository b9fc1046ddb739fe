package gatekeeperexport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/client/gatekeeperexport"
)

// driver is Gatekeeper's interface, which its package pkg/export/driver declares.
type driver interface {
	Publish(ctx context.Context, connectionName string, data any, subject string) error
	CloseConnection(connectionName string) error
	UpdateConnection(ctx context.Context, connectionName string, config any) error
	CreateConnection(ctx context.Context, connectionName string, config any) error
}

// What Gatekeeper does with a driver: it lists it with the others, opens the
// connection that a Connection describes, and publishes what its audit finds.
func Example() {
	address, exporter, stop := startExporter()
	defer stop()

	supportedDrivers := map[string]driver{
		// dapr.Name: dapr.Connections,
		// disk.Name: disk.Connections,
		gatekeeperexport.Name: gatekeeperexport.New(gatekeeperexport.Options{}),
	}

	// The spec of a Connection.
	var spec struct {
		Driver string
		Config any
	}
	if err := json.Unmarshal([]byte(`{"driver":"docket","config":{"address":"`+address+`","timeout":"30s"}}`), &spec); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	docket := supportedDrivers[spec.Driver]
	if err := docket.CreateConnection(ctx, "audit-connection", spec.Config); err != nil {
		fmt.Println(err) // shown in the status of the Connection
		return
	}

	violation := map[string]any{"eventType": "violation_audited", "name": "require-team", "enforcementAction": "deny"}
	err := docket.Publish(ctx, "audit-connection", violation, "audit-channel")
	fmt.Println("published, error:", err) // nil: it is on the exporter's disk
	fmt.Println("stored:", exporter.Lines()[0].Text)

	fmt.Println("closed, error:", docket.CloseConnection("audit-connection"))
	// Output:
	// published, error: <nil>
	// stored: {"enforcementAction":"deny","eventType":"violation_audited","name":"require-team"}
	// closed, error: <nil>
}

// startExporter stands for "docket run".
func startExporter() (address string, exporter *clienttest.Exporter, stop func()) {
	dir, err := os.MkdirTemp("", "docket-")
	if err != nil {
		panic(err)
	}
	socket := filepath.Join(dir, "docket.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	exporter = clienttest.New()
	go exporter.Serve(listener)
	return "unix://" + socket, exporter, func() {
		exporter.Close()
		os.RemoveAll(dir)
	}
}
