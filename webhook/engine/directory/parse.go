package directory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// maxFileBytes is four times what a ConfigMap or an object in etcd can have.
const maxFileBytes = 4 << 20

// Object is one object and the place where it begins.
type Object struct {
	*unstructured.Unstructured
	File string
	Line int
}

// Problem is what is wrong in a file, or below a directory.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"` // 0: it is about all of it
	Message string `json:"message"`
}

// String is in the form that editors follow.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// readFile returns the text of a regular file. Anything else could block for ever.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("larger than %d MiB: split it", maxFileBytes>>20)
	}
	return text, err
}

// parse returns every object in a file. The first mistake spoils the file: nobody can know
// what was meant to stand after it.
func parse(file string, text []byte) ([]Object, *Problem) {
	var objects []Object
	for line, document := range documents(text) {
		blank := document[:len(document)-len(bytes.TrimLeft(document, " \t\r\n"))]
		begin := line + bytes.Count(blank, []byte("\n"))
		found, err := decode(document)
		for _, object := range found {
			objects = append(objects, Object{object, file, begin})
		}
		if err == nil {
			continue
		}
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			n, _ := strconv.Atoi(m[1]) // may be that after the last
			return nil, &Problem{file, line + min(n-1, bytes.Count(document, []byte("\n"))), m[2]}
		}
		return nil, &Problem{file, begin, err.Error()}
	}
	return objects, nil
}

// yamlLine is where the library for YAML names a line of the document.
var yamlLine = regexp.MustCompile(`(?s)yaml: (?:unmarshal errors:\s+)?line (\d+): (.*)$`)

var separator = regexp.MustCompile(`(?m)^(---|\.\.\.)(\s|$)`)

// documents are those of a file, with the line of their first byte.
func documents(text []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		line, begin := 1, 0
		for _, next := range append(separator.FindAllIndex(text, -1), []int{len(text), len(text)}) {
			document := text[begin:next[0]]
			if !yield(line, document) {
				return
			}
			line += bytes.Count(document, []byte("\n"))
			begin = min(next[0]+len("---"), len(text)) // more may follow in the same line
		}
	}
}

// decode returns the object in a document, those of a list, or none if it is empty.
func decode(document []byte) (objects []*unstructured.Unstructured, err error) {
	text := document
	if !json.Valid(document) {
		if text, err = yaml.YAMLToJSONStrict(document); err != nil {
			return nil, err
		}
	}
	if string(bytes.TrimSpace(text)) == "null" {
		return nil, nil
	}
	object := new(unstructured.Unstructured)
	if err := object.UnmarshalJSON(text); runtime.IsMissingKind(err) {
		return nil, errors.New("no object of Kubernetes: it has no kind")
	} else if err != nil {
		return nil, err
	}
	add := func(o runtime.Object) error {
		object := o.(*unstructured.Unstructured)
		named := object.GetName() != "" || object.GetGenerateName() != "" && !isPolicy(object)
		if object.GetAPIVersion() == "" || object.GetKind() == "" || !named {
			return fmt.Errorf("%s %s has no apiVersion, kind or metadata.name", object.GetKind(), object.GetName())
		}
		objects = append(objects, object)
		return nil
	}
	if object.IsList() {
		return objects, object.EachListItem(add)
	}
	return objects, add(object)
}
