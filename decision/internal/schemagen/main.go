// Command schemagen writes the JSON Schema of decision.Record from its Go
// source: members and types from the struct, descriptions from the field
// comments, the values of an enumeration from the constants of its type.
//
//	schemagen record.go record.schema.json
package main

import (
	"fmt"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("schemagen: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: schemagen SOURCE.go SCHEMA.json")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(source, target string) error {
	src, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	schema, err := generate(source, src)
	if err != nil {
		return err
	}
	if err := os.WriteFile(target, schema, 0o644); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	return nil
}
