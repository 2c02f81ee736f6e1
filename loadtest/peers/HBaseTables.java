import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * HBase commands for opentsdb.py, without the HBase shell: {@code java -cp … HBaseTables.java create|compact}, with an
 * hbase-site.xml on the class path.
 *
 * <p>{@code create} makes OpenTSDB's tables as its create_table.sh does with COMPRESSION=NONE; {@code compact} writes them to
 * files and merges those, deletions included.
 */
class HBaseTables {
  static final Map<String, List<String>> FAMILIES =
      Map.of("tsdb", List.of("t"), "tsdb-uid", List.of("id", "name"), "tsdb-tree", List.of("t"), "tsdb-meta", List.of("name"));
  static final long AGAIN_MILLIS = 200;

  public static void main(String[] arguments) throws IOException, InterruptedException {
    try (var connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        var admin = connection.getAdmin()) {
      switch (arguments[0]) {
        case "create" -> create(admin);
        case "compact" -> compact(admin);
        default -> throw new IllegalArgumentException("expected create or compact, found " + arguments[0]);
      }
    }
  }

  static void create(Admin admin) throws IOException {
    for (var table : FAMILIES.entrySet()) {
      var descriptor = TableDescriptorBuilder.newBuilder(TableName.valueOf(table.getKey()));
      for (var family : table.getValue()) {
        descriptor.setColumnFamily(
            ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes(family))
                .setMaxVersions(1)
                .setCompressionType(Compression.Algorithm.NONE)
                .setBloomFilterType(BloomType.ROW)
                .setDataBlockEncoding(DataBlockEncoding.DIFF)
                .build());
      }
      admin.createTable(descriptor.build());
    }
  }

  static void compact(Admin admin) throws IOException, InterruptedException {
    for (var name : FAMILIES.keySet()) {
      var table = TableName.valueOf(name);
      admin.flush(table);
      // A minor compaction in progress would exclude its files from the major one.
      awaitRest(admin, table);
      admin.majorCompact(table);
      awaitRest(admin, table);
    }
  }

  static void awaitRest(Admin admin, TableName table) throws IOException, InterruptedException {
    while (admin.getCompactionState(table) != CompactionState.NONE) {
      Thread.sleep(AGAIN_MILLIS);
    }
  }
}
