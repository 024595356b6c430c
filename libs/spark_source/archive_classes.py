"""Writes a class data archive: the JVM of Spark's driver then loads its classes from one file.

Usage: `python archive_classes.py ENVIRONMENT`. Runs what most programs of Spark run (SQL, tables of a Hive
catalog, a streaming query and a client of Spark Connect), and has the JVM write the classes that it loaded
to `ENVIRONMENT/classes.jsa` (250 MB). A driver starts in half the time with it. The JVM ignores an archive
whose JDK or jars are not its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("SELECT name, count(*) FROM numbers GROUP BY name").toPandas()
"""


def session(folder: str) -> Any:
    """Returns a session that keeps all its files in a folder."""
    metastore = f"jdbc:derby:;databaseName={folder}/metastore;create=true"
    settings = {
        "spark.ui.enabled": "false",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.local.dir": folder,
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": Path(folder, "tables").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
        "spark.driver.extraJavaOptions": f'-XX:+UseSerialGC "-Dderby.system.home={folder}"',
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def use(spark: Any, folder: str) -> None:
    """Runs queries of each kind."""
    rows = spark.createDataFrame([(number, str(number)) for number in range(100)], "id int, name string")
    rows.groupBy("name").count().orderBy("name").collect()
    rows.write.saveAsTable("numbers")
    spark.sql("SELECT name, sum(id) OVER (PARTITION BY name) FROM numbers").collect()
    rates = spark.readStream.format("rate").load().writeStream.trigger(availableNow=True)
    rates.option("checkpointLocation", f"{folder}/checkpoints").toTable("rates").awaitTermination(60)
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    subprocess.run([sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{port}"], check=True, timeout=120)


def main() -> None:
    """Runs Spark with the flag that writes the archive."""
    environment = Path(sys.argv[1]).absolute()
    archive = environment / "classes.jsa"
    archive.unlink(missing_ok=True)
    with TemporaryDirectory() as folder:
        os.environ |= {
            "SPARK_HOME": str(environment / "spark-home"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "JDK_JAVA_OPTIONS": f'-Xlog:cds*=off "-XX:ArchiveClassesAtExit={archive}"',
        }
        os.environ.pop("SPARK_CONF_DIR", None)
        os.chdir(folder)
        spark = session(folder)
        use(spark, folder)
        java = spark.sparkContext._gateway.proc
        spark.stop()
        java.stdin.close()  # the JVM ends with its input
        java.wait(120)


if __name__ == "__main__":
    main()
