package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const flightClient = "go-flightsql"

// session is a client that keeps cookies, and the context with its credentials.
type session struct {
	*flightsql.Client
	ctx context.Context
}

func (s server) dial() (*flightsql.Client, error) {
	transport := insecure.NewCredentials()
	if s.tls != nil {
		transport = credentials.NewTLS(s.tls)
	}
	return flightsql.NewClient(s.address, nil, []flight.ClientMiddleware{flight.NewClientCookieMiddleware()}, grpc.WithTransportCredentials(transport))
}

// rows reads all batches of a result; it returns the number of rows and the first column's values as texts.
func (c session) rows(info *flight.FlightInfo, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	var values []string
	for _, endpoint := range info.Endpoint {
		reader, err := c.DoGet(c.ctx, endpoint.Ticket)
		if err != nil {
			return nil, err
		}
		for reader.Next() {
			column := reader.RecordBatch().Column(0)
			for i := range column.Len() {
				values = append(values, column.ValueStr(i))
			}
		}
		err = reader.Err()
		reader.Release()
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (c session) is(expected []string, info *flight.FlightInfo, err error) error {
	found, err := c.rows(info, err)
	if err != nil {
		return err
	}
	return equal(found, expected)
}

func (c session) query(expected []string, sql string) error {
	info, err := c.Execute(c.ctx, sql)
	if err := c.is(expected, info, err); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func flightSQL(s server) error {
	client, err := s.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	if s.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.token)
	}
	c := session{client, ctx}
	step := func(name string, run func() error) { step(flightClient, name, run) }

	if s.user != "" {
		step("connect: the handshake gives a token", func() error {
			with, err := client.Client.AuthenticateBasicToken(context.Background(), s.user, s.password)
			if err != nil {
				return err
			}
			return session{client, with}.query([]string{s.user}, "select current_user()")
		})
		step("connect: a wrong password is refused", func() error {
			_, err := client.Client.AuthenticateBasicToken(context.Background(), s.user, "wrong")
			return refused("password", err)
		})
	}
	step("update: DDL and INSERT count their rows", func() error {
		var all error
		for _, statement := range []struct {
			sql      string
			expected int64
		}{
			{"drop database if exists goflight", 0},
			{"create database goflight", 0},
			{"create table goflight.t (ts timestamp, v int)", 0},
			{"insert into goflight.t values (1563249700000, 1) (1563249700001, 2)", 2},
		} {
			found, err := c.ExecuteUpdate(ctx, statement.sql)
			all = errors.Join(all, err, equal(found, statement.expected))
		}
		return errors.Join(all, c.query([]string{"2"}, "select count(*) from goflight.t"))
	})
	step("query: its schema, before it runs", func() error {
		result, err := c.GetExecuteSchema(ctx, "select 1 as a, 'x' as b")
		if err != nil {
			return err
		}
		schema, err := flight.DeserializeSchema(result.GetSchema(), memory.DefaultAllocator)
		if err != nil {
			return err
		}
		return equal([]string{schema.Field(0).Name, schema.Field(1).Type.String()}, []string{"a", "utf8"})
	})
	step("query: a million rows", func() error {
		info, err := c.Execute(ctx, "select value from generate_series(1, 1000000)")
		found, err := c.rows(info, err)
		return errors.Join(err, equal(len(found), 1_000_000))
	})
	step("prepared: types of parameters, a query, an update", func() error {
		query, err := c.Prepare(ctx, "select v from goflight.t where v = ?")
		if err != nil {
			return err
		}
		defer query.Close(ctx)
		if err := equal(query.ParameterSchema().Field(0).Type.String(), "int64"); err != nil {
			return err
		}
		one := batch(arrow.NewSchema([]arrow.Field{{Name: "1", Type: arrow.PrimitiveTypes.Int64}}, nil), 2)
		defer one.Release()
		query.SetParameters(one)
		info, err := query.Execute(ctx)
		if err := c.is([]string{"2"}, info, err); err != nil {
			return err
		}
		update, err := c.Prepare(ctx, "insert into goflight.t values (?, ?)")
		if err != nil {
			return err
		}
		defer update.Close(ctx)
		both := batch(arrow.NewSchema([]arrow.Field{
			{Name: "1", Type: &arrow.TimestampType{Unit: arrow.Millisecond}}, {Name: "2", Type: arrow.PrimitiveTypes.Int64}}, nil), startMs+5, 3)
		defer both.Release()
		update.SetParameters(both)
		count, err := update.ExecuteUpdate(ctx)
		return errors.Join(err, equal(count, int64(1)), c.query([]string{"1"}, "select count(*) from goflight.t where v = 3 and ts = 1563249700005"),
			deleted(c))
	})
	step("metadata: catalogs, databases, tables, types, keys and information", func() error {
		pattern := "goflight"
		catalogs, e1 := c.GetCatalogs(ctx)
		schemas, e2 := c.GetDBSchemas(ctx, &flightsql.GetDBSchemasOpts{DbSchemaFilterPattern: &pattern})
		tables, e3 := c.GetTables(ctx, &flightsql.GetTablesOpts{DbSchemaFilterPattern: &pattern, TableTypes: []string{"BASE TABLE", "table"}, IncludeSchema: true})
		types, e4 := c.GetTableTypes(ctx)
		keys, e5 := c.GetPrimaryKeys(ctx, flightsql.TableRef{DBSchema: &pattern, Table: "t"})
		foreign, e6 := c.GetImportedKeys(ctx, flightsql.TableRef{DBSchema: &pattern, Table: "t"})
		known, e7 := c.GetXdbcTypeInfo(ctx, nil)
		info, e8 := c.GetSqlInfo(ctx, []flightsql.SqlInfo{})
		typesKnown, e9 := c.rows(known, e7)
		facts, e10 := c.rows(info, e8)
		return errors.Join(
			c.is([]string{"tidelake"}, catalogs, e1),
			c.is([]string{"tidelake"}, schemas, e2),
			c.is([]string{"tidelake"}, tables, e3),
			c.is([]string{"TABLE", "VIEW"}, types, e4),
			c.is([]string{"tidelake", "tidelake"}, keys, e5),
			c.is(nil, foreign, e6),
			e9, e10, equal(len(typesKnown), 15), equal(len(facts) >= 71, true),
		)
	})
	step("session: options are set, kept in the cookie, and read", func() error {
		schema, err := flight.NewSessionOptionValue("goflight")
		if err != nil {
			return err
		}
		set, err := c.SetSessionOptions(ctx, &flight.SetSessionOptionsRequest{SessionOptions: map[string]*flight.SessionOptionValue{"schema": &schema}})
		if err != nil {
			return err
		}
		if err := equal(len(set.GetErrors()), 0); err != nil {
			return err
		}
		options, err := c.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
		if err != nil {
			return err
		}
		if err := errors.Join(
			equal(options.GetSessionOptions()["schema"].GetStringValue(), "goflight"),
			equal(options.GetSessionOptions()["catalog"].GetStringValue(), "tidelake"),
			c.query([]string{"2"}, "select count(*) from t"),
		); err != nil {
			return err
		}
		if _, err := c.CloseSession(ctx, &flight.CloseSessionRequest{}); err != nil {
			return err
		}
		return c.query([]string{"(null)"}, "select database()")
	})
	step("ingest: create, append, and refused where the table exists", func() error {
		schema := arrow.NewSchema([]arrow.Field{{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Millisecond}}, {Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
		place := "goflight"
		put := func(from int64, missing flightsql.TableDefinitionOptionsTableNotExistOption, exists flightsql.TableDefinitionOptionsTableExistsOption) (int64, error) {
			record := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			defer record.Release()
			for i := from; i < from+1000; i++ {
				record.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(startMs + i))
				record.Field(1).(*array.Int64Builder).Append(i)
			}
			rows := record.NewRecordBatch()
			defer rows.Release()
			reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{rows})
			if err != nil {
				return 0, err
			}
			defer reader.Release()
			return c.ExecuteIngest(ctx, reader, &flightsql.ExecuteIngestOpts{
				Table: "bulk", Schema: &place,
				TableDefinitionOptions: &flightsql.TableDefinitionOptions{IfNotExist: missing, IfExists: exists},
			})
		}
		created, e1 := put(0, flightsql.TableDefinitionOptionsTableNotExistOptionCreate, flightsql.TableDefinitionOptionsTableExistsOptionFail)
		appended, e2 := put(1000, flightsql.TableDefinitionOptionsTableNotExistOptionFail, flightsql.TableDefinitionOptionsTableExistsOptionAppend)
		_, e3 := put(0, flightsql.TableDefinitionOptionsTableNotExistOptionCreate, flightsql.TableDefinitionOptionsTableExistsOptionFail)
		return errors.Join(e1, e2, equal([]int64{created, appended}, []int64{1000, 1000}), refused("exists", e3),
			c.query([]string{"1999000"}, "select sum(v) from goflight.bulk"))
	})
	step("transaction: is refused with the reason", func() error {
		_, err := c.BeginTransaction(ctx)
		return refused("transaction", err)
	})
	step("error: says what is wrong, and the connection goes on", func() error {
		try := func(sql string) error { _, err := c.Execute(ctx, sql); return err }
		return errors.Join(
			refused("syntax error", try("selekt 1")),
			refused("nosuch", try("select * from nosuch.t")),
			refused("empty", try("")),
			c.query([]string{"1"}, "select 1"),
		)
	})
	return nil
}

func deleted(c session) error {
	count, err := c.ExecuteUpdate(c.ctx, "delete from goflight.t where ts = 1563249700005")
	return errors.Join(err, equal(count, int64(1)))
}

// batch is one row of the given values.
func batch(schema *arrow.Schema, values ...int64) arrow.RecordBatch {
	record := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer record.Release()
	for i, field := range record.Fields() {
		switch builder := field.(type) {
		case *array.Int64Builder:
			builder.Append(values[i])
		case *array.TimestampBuilder:
			builder.Append(arrow.Timestamp(values[i]))
		}
	}
	return record.NewRecordBatch()
}
