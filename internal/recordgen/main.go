// Command recordgen derives testdata/records from the captures in
// testdata/samples. It takes each record out of whatever an engine wrapped it in,
// and writes it on a line of its own, byte for byte.
//
//	recordgen SAMPLES RECORDS
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
)

//go:generate go run . ../../testdata/samples ../../testdata/records

func main() {
	log.SetFlags(0)
	log.SetPrefix("recordgen: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: recordgen SAMPLES RECORDS")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// run writes every derived file into the directory records.
func run(samples, records string) error {
	for _, d := range derivations {
		lines, err := d.derive(samples)
		if err != nil {
			return fmt.Errorf("derive %s: %w", d.name, err)
		}
		if err := os.WriteFile(filepath.Join(records, d.name), lines, 0o644); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
	}
	return nil
}
