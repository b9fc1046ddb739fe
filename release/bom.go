package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes what program is linked with, as CycloneDX. It has no serial number: a
// second build would have another.
func (r release) writeBOM(name, program string, libraries []library) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	bom := cdx.NewBOM()
	bom.SerialNumber = ""
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.commit.time.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "docket", Type: cdx.ComponentTypeApplication, Name: "docket", Version: r.version,
			PackageURL: "pkg:golang/" + module + "@" + r.version,
			Licenses:   &cdx.Licenses{{Expression: "Apache-2.0"}},
			Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		},
	}
	components, refs := []cdx.Component{}, []string{}
	for _, l := range libraries {
		url := "pkg:golang/" + l.path + "@" + l.version
		components = append(components, cdx.Component{
			BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: l.path, Version: l.version, PackageURL: url,
			Licenses: &cdx.Licenses{{Expression: l.licence}},
		})
		refs = append(refs, url)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: "docket", Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}
