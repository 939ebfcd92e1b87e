# Compiles small files of a folder together: most of their time goes into headers, and into templates, that they share. A
# group is what is compiled again when one of its files changes, so groups are small, and numeric code is in none.
#   gradmill_unity(<folder> <most files in a group>): the sources of the library in that folder of src. GRADMILL_UNITY=OFF
# compiles each alone, as the presets debug and paper do: that shows an include that only a neighbour had.
function(gradmill_unity folder size)
  get_target_property(sources gradmill SOURCES)
  list(FILTER sources INCLUDE REGEX "/src/${folder}/[a-z0-9_]+\\.cpp$")
  list(LENGTH sources count)
  math(EXPR groups "(${count} + ${size} - 1) / ${size}")
  set(index 0)
  foreach(source ${sources})
    math(EXPR group "${index} * ${groups} / ${count}")
    string(REPLACE "/" "_" name ${folder}_${group})
    set_source_files_properties(${source} TARGET_DIRECTORY gradmill PROPERTIES UNITY_GROUP ${name})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()
